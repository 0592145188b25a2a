"""What pages that people read are made of: tables, pictures, and the words around them."""

from likely._page.parts import Picture, Table

__all__ = ["Picture", "Table"]
