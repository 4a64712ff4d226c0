"""Engines: who runs the rules, and when."""
