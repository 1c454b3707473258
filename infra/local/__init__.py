"""The local stack: the real template on an embedded AWS endpoint, handlers under the real runtime client."""
