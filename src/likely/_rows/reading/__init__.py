"""Tables from files and from Python: text in columns, Parquet, Arrow, NumPy, frames."""
