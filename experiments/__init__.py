"""Studies that anyone can run: `ggmc reproduce NAME`."""
