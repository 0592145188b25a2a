"""The kinds of model that a stack is made of: one file each, fitted to every fold's rows."""
