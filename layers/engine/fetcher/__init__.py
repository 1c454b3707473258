"""Complete, repeatable and provable extraction from databases and APIs."""

__version__ = "0.1.0"
