"""Attribute codecs, and the structured attribute values that ops carry."""
