"""Study files: what is sampled, how, and for how long, in TOML. `lines.py`, `fields.py` and `tables.py` check a file,
`read.py` reads it; `data.py`, `target.py` and `kernel.py` build what it describes."""
