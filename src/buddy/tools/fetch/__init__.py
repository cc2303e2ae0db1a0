"""Fetching from the network: one guard on resolved addresses, in front of every connection."""
