"""`python -m ggmc.cli`, which is the command `ggmc`."""

from ggmc.cli import main

main()
