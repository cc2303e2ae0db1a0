"""An HTTP/1.1 client for model APIs: address, TLS, connections, a pool of them, requests and responses."""
