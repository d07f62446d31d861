"""Thin verbs over the Python API."""
