"""Data sets of the literature, read from the files that their authors publish: `cifar10`, `mnist`, `uci`.

Each gives a `Dataset` of tensors as they are in the file; `.normalised()` makes of them what a network is given. Files
may come from anywhere: nothing in them is executed, and what does not look as it should is refused.
"""

from ggmc.datasets.cifar import CIFAR10_MEAN, CIFAR10_STD, cifar10
from ggmc.datasets.dataset import Dataset, Scale
from ggmc.datasets.mnist_files import MNIST_MEAN, MNIST_STD, mnist
from ggmc.datasets.uci_splits import uci

__all__ = ["CIFAR10_MEAN", "CIFAR10_STD", "MNIST_MEAN", "MNIST_STD", "Dataset", "Scale", "cifar10", "mnist", "uci"]
