"""The base service of every broker: one module a subject, every handler answers one request code. What a feature
answers stands in its folder."""
