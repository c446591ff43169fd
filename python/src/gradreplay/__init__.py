"""The Python end of replay."""
