"""Commands that may write only in the workspace: bubblewrap where it is installed, else Landlock and namespaces."""
