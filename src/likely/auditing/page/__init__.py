"""The page of an audit, with its template, style and script."""
