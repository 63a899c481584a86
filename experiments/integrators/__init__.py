"""The study of Garriga-Alonso and Fortuin (2020): ResNet-20 on CIFAR-10, GGMC beside HMC and SGHMC.

config.toml    three sizes: `full` for a GPU, `small` for hours on a CPU, `tiny` for minutes
settings.py    reads it
cells.py       every run of the study: its posterior and its kernel
rates.py       the learning rate at which half of the trajectories are accepted
jugfile.py     all of it as tasks, for any number of workers
figures.py     what the runs show
"""
