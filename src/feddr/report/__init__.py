"""Runs as one page: curves, clients, certificates and settings in an HTML file that needs nothing else."""
