"""Bad targets, kernels and arguments of `sample`, with the error and the message that each must get."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pandas import DataFrame
from torch.distributions import AbsTransform, constraints

import ggmc
from ggmc.errors import NotExact
from ggmc.trace.store import MemoryStore
from tests.support.earlier_work import Case, g, line, quartic, same_density

NAN = math.nan
s: Any = ggmc.schedule


def in_turn(entries: int, batches: int, _: torch.Generator) -> list[int]:
    return [i % batches for i in range(entries)]


def _model_with_nan() -> None:
    pyro.sample("y", dist.Normal(pyro.sample("a", dist.Normal(0.0, 1.0)), 1.0), obs=torch.tensor(NAN))


TARGETS = [
    Case("no function", lambda w: w.density_of(None), "log_prob must be a function that returns a torch tensor"),
    Case("swapped", lambda w: w.density_of(w.zeros, quartic), "start must be a tensor.*got function"),
    Case("start a list", lambda w: w.density_of(quartic, [0.0, 1.0]), "start must be a tensor.*got list"),
    Case("start whole numbers", lambda w: w.density_of(quartic, torch.zeros(2).long()), r"got torch.int64.*\.double"),
    Case("start NaN", lambda w: w.density_of(quartic, w.zeros * NAN), r"start must be finite, got nan in theta\[0\]"),
    Case("start on meta", lambda w: w.density_of(quartic, torch.zeros(2, device="meta")), "on meta for theta"),
    Case("start sparse", lambda w: w.density_of(quartic, w.zeros.to_sparse()), "got torch.sparse_coo"),
    Case("start nested", lambda w: w.density_of(quartic, {"a": {"b": w.zeros}}), "got dict for a"),
    Case("name a number", lambda w: w.density_of(lambda v: quartic(v[0]), {0: w.zeros}), "text as names, got 0"),
    Case("vector", lambda w: w.density_of(lambda x: -(x**2)), r"return a scalar, got shape \(2,\): sum its terms"),
    Case("float", lambda w: w.density_of(lambda x: float(quartic(x))), "scalar torch tensor, got float"),
    Case(
        "whole number", lambda w: w.density_of(lambda x: quartic(x).long()), "floating point numbers, got torch.int64"
    ),
    Case("complex", lambda w: w.density_of(lambda x: quartic(x) + 0j), "floating point numbers, got torch.complex128"),
    Case("detached", lambda w: w.density_of(lambda x: quartic(x.detach())), "depends on theta but has no gradient"),
    Case("own error", lambda w: w.density_of(lambda x: quartic(x) @ w.x.float()), "called at the start", RuntimeError),
    Case("unknown name", lambda w: w.density_of(quartic, {"a": w.zeros}, {"b": constraints.positive}), r"name \['b'\]"),
    Case(
        "outside", lambda w: w.density_of(quartic, w.zeros - 1, constraints.positive), "must lie inside the constraint"
    ),
    Case("constraint a word", lambda w: w.density_of(quartic, None, "positive"), "constraints must be a constraint or"),
    Case(
        "no bijection", lambda w: w.density_of(quartic, None, AbsTransform()), "must be a bijection, got AbsTransform"
    ),
    Case("lengths", lambda w: w.data_density(data=(w.x, w.y[:5])), r"one length.*got lengths \[12, 5\]"),
    Case("no data", lambda w: w.data_density(data=(w.x[:0], w.y[:0])), "at least one example"),
    Case(
        "arrays", lambda w: w.data_density(data=(w.x.numpy(), w.y.numpy())), r"got \['ndarray'\]: use torch.as_tensor"
    ),
    Case("a table", lambda w: w.data_density(data=DataFrame({"a": [1.0]})), "example 0 of DataFrame cannot be read"),
    Case("precision", lambda w: w.data_density(data=(w.x.float(), w.y)), "torch.float64 on cpu", RuntimeError),
    Case("summed", lambda w: w.data_density(lambda v, b: line(v, b).sum()), "do not sum over the batch"),
    Case(
        "hidden", lambda w: w.data_density(lambda v, b: line(v.detach(), b)), "log_likelihood depends on theta but has"
    ),
    Case("NaN", lambda w: w.data_density(data=(w.x, w.y * NAN)), "log likelihood of example 0 is nan at the start"),
    Case("no prior", lambda w: w.data_density(prior=None), "log_prior must be a function"),
    Case("bound", lambda w: w.data_density(bound=NAN), "bound must be a number that no term"),
    Case("vectorise", lambda w: w.data_density(vectorise="yes"), "vectorise must be True or False, got 'yes'"),
    Case("no model", lambda w: g.from_pyro(None), "from_pyro needs a Pyro model"),
    Case("model's data NaN", lambda w: g.from_pyro(_model_with_nan), "log_prob is nan at the start"),
]

KERNELS = [
    Case("size a typo", lambda w: g.Minibatch("atuo"), "size must be a whole number of at least 1, got 'atuo'"),
    Case("size zero", lambda w: g.Minibatch(0), "size must be a whole number of at least 1, got 0"),
    Case("cut's seed", lambda w: g.Minibatch(3, seed="a"), "seed must be a whole number of at most 64 bits, got 'a'"),
    Case("recut", lambda w: g.Minibatch(3, recut="no"), "recut must be True or False"),
    Case("without data", lambda w: w.sample(kernel=g.GGMC(guide=g.Minibatch(3))), "needs a target with data"),
    Case("curvature", lambda w: g.ControlVariate(3, curvature="full"), "curvature must be one of"),
    Case("anchor", lambda w: g.ControlVariate(3, anchor=torch.zeros(5)).bind(w.data), r"must end in shape \(2,\)"),
    Case("surrogate", lambda w: g.Surrogate(lambda x: 0.0).bind(w.density), "Surrogate must return a torch tensor"),
    Case("order's words", lambda w: w.order(lambda e, b, r: "abc"), "must give 5 batch numbers, got 'abc'"),
    Case("order's range", lambda w: w.order(lambda e, b, r: [b] * e), "batch numbers from 0 to 3, got 4 to 4"),
    Case(
        "order in turn",
        lambda w: w.order(in_turn),
        "said to be reversible, but",
        NotExact,
    ),
    Case("order unsure", lambda w: w.order(range, "perhaps"), "reversible must be True or False"),
    Case("guide a class", lambda w: g.GGMC(0.1, guide=ggmc.Exact), "got the class Exact"),
    Case("step negative", lambda w: g.GGMC(-1), "step_size must be a positive number, got -1"),
    Case("step text", lambda w: g.MALA("0.1"), "step_size must be a number, got '0.1'"),
    Case("step True", lambda w: g.MALA(True), "step_size must be a number, got True"),
    Case("steps of chains", lambda w: g.GGMC(torch.ones(3)), "step_size must be a number, got tensor"),
    Case("friction", lambda w: g.MALT(0.1, friction=-1, steps=3), "friction must be zero or a positive"),
    Case("frozen", lambda w: g.GGMC(0.1, temperature=0), "temperature 0 is optimisation.*use adjust=False"),
    Case("adjust a word", lambda w: g.HMC(0.1, 3, adjust="no"), "adjust must be True or False, got 'no'"),
    Case("sweeps", lambda w: g.GGMC(0.1, steps="sweeps"), "steps as text must read like '3 epochs'"),
    Case("no steps", lambda w: g.AMAGOLD(0.1, 1.0, steps=0), "steps must be a whole number of at least 1"),
    Case("unknown letter", lambda w: g.GGMC(0.1, scheme="OBXBO"), "unknown letter 'X' at place 3"),
    Case("one way", lambda w: g.GGMC(0.1, scheme="OBA"), "must read the same backwards", NotExact),
    Case("no word", lambda w: g.GGMC(0.1, scheme=""), "the word '' must be letters"),
    Case("word a list", lambda w: g.GGMC(0.1, scheme=["O", "B"]), "a scheme must be a word such as 'OBABO'"),
    Case("mass", lambda w: g.GGMC(0.1, mass=torch.tensor([[1.0, 2.0], [2.0, 1.0]])), "smallest eigenvalue of -1"),
    Case(
        "mass's size",
        lambda w: g.GGMC(0.1, mass=torch.ones(3)).bind(w.density),
        "for 3 parameters, but the target has 2",
    ),
    Case("mass with a step", lambda w: g.GGMC(0.1, mass="low_rank"), "mass='low_rank' is found in warm-up: leave"),
    Case("mass complex", lambda w: g.GGMC(0.1, mass=torch.ones(2) + 0j), "mass must be real numbers"),
    Case("SGLD tested", lambda w: g.SGLD(0.1, adjust=True), r"use ggmc\.MALA, or adjust=False", NotExact),
    Case("SGHMC tested", lambda w: g.SGHMC(0.1, adjust=True), "Theorem 1", NotExact),
    Case("SGNHT tested", lambda w: g.SGNHT(0.1, adjust=True), "thermostat is not reversible", NotExact),
    Case("along", lambda w: g.GGMC(0.1, along=s.Cosine()), r"along must be a schedule\.Along"),
    Case("over", lambda w: g.SGLD(0.1, over=10), r"over must be a schedule\.Over"),
    Case("class of schedule", lambda w: s.ThereAndBack(s.Cosine), "got the class Cosine: make one"),
    Case("factor for schedule", lambda w: s.Over(4, 0.5), "step_size must be a schedule such as"),
    Case("cycles", lambda w: s.Cyclical(0), "cycles must be a whole number of at least 1"),
    Case("lopsided", lambda w: g.GGMC(0.1, steps=4, along=s.Along(s.Cosine())), "read the same backwards", NotExact),
    Case("bound to a class", lambda w: g.GGMC(0.1).bind(ggmc.Density), "target must be a target such as"),
    Case("array of starts", lambda w: g.GGMC(0.1).bind(w.density)[0](np.zeros((2, 2)), None), "floating point tensor"),
    Case("retrace nothing", lambda w: g.retrace(g.GGMC(0.1), None), "target must be a target such as"),
    Case("retrace noises", lambda w: g.retrace(lambda *a: a[:2], w.density, -1), "noises must be a whole number"),
    Case("retrace shapes", lambda w: g.retrace(lambda a, b, c, d: a, w.density, 1), "a position and a momentum"),
    Case("rate", lambda w: g.from_learning_rate(0, 0.9, 10), "lr must be a positive number, got 0"),
    Case("too much friction", lambda w: g.to_learning_rate(1.0, 2.0, 10, euler=True), "of at most 1, got 2"),
    Case("momentum", lambda w: g.from_learning_rate(0.1, "0.9", 10), "momentum must be a number, got '0.9'"),
]

SAMPLE = [
    *(
        Case(f"draws {bad!r}", lambda w, bad=bad: w.sample(draws=bad), "draws must be a whole number of at least 1")
        for bad in (0, True, 1.5, "100", NAN, None)
    ),
    *(
        Case(f"seed {bad!r}", lambda w, bad=bad: w.sample(seed=bad), "seed must be a whole number of at most 64 bits")
        for bad in ("a", 2**70, 1.5, None, NAN)
    ),
    Case("warmup", lambda w: w.sample(warmup=-1), "warmup must be a whole number of at least 0, got -1"),
    Case("chains", lambda w: w.sample(chains=0), "chains must be a whole number of at least 1, got 0"),
    Case("accept", lambda w: w.sample(target_accept="0.8"), "target_accept must be a number, got '0.8'"),
    Case("accept percent", lambda w: w.sample(target_accept=80), "target_accept must lie between 0 and 1, got 80"),
    Case("anneal", lambda w: w.sample(anneal=-1.0), "anneal must be a positive number"),
    Case("function", lambda w: w.sample(target=quartic), "target must be a target such as"),
    Case("class", lambda w: w.sample(kernel=ggmc.HMC), "kernel must be a kernel such as"),
    Case("start's rows", lambda w: w.sample(start=torch.zeros(3, 2)), "with 2 rows, one for each chain"),
    Case("start's columns", lambda w: w.sample(start=torch.zeros(2, 3)), r"shape \[chains, 2\], got \[2, 3\]"),
    Case("start complex", lambda w: w.sample(start=torch.zeros(2, 2) + 0j), "floating point tensor .*torch.complex64"),
    Case(
        "start outside",
        lambda w: w.sample(start=torch.ones(2, 2).double() * 1e100),
        "chain 0 starts at a potential of inf",
    ),
    Case("store a class", lambda w: w.sample(store=MemoryStore), "the class MemoryStore: make one"),
    Case("store a list", lambda w: w.sample(store=[]), r"store must be a ggmc\.trace\.Store"),
    Case("store used", lambda w: w.sample(store=w.draws.store), "holds the draws of another run"),
    Case("callback", lambda w: w.sample(callback="print"), "callback must be a function of one"),
    Case("callback a class", lambda w: w.sample(callback=g.tensorboard.Logger), "the class Logger: make one"),
    Case("logger", lambda w: g.tensorboard.Logger(w.file), "the folder .* cannot be written to"),
    Case("out a file", lambda w: w.sample(out=w.file), "cannot be made"),
    Case("out below a file", lambda w: w.sample(out=w.file / "run"), "cannot be made"),
    Case("out in use", lambda w: w.sample(out=w.other), "is not an empty folder"),
    Case("out a run", lambda w: w.sample(out=w.run), r"holds a run already: continue it with ggmc\.resume"),
    Case("out a number", lambda w: w.sample(out=3), "the path of a run must be text or a Path, got 3"),
    Case("out null", lambda w: w.sample(out="a\0b"), "there can be no folder"),
    Case("out too long", lambda w: w.sample(out=w.folder / ("a" * 400)), "there can be no folder"),
    Case("thinned away", lambda w: w.sample(out=g.RunFolder(w.new, thin=9)), "thin=9 would keep none of 8 draws"),
    Case("precision", lambda w: g.RunFolder(w.new, precision="float16"), "precision must be one of"),
    Case("checkpoints", lambda w: g.RunFolder(w.new, checkpoint_every="1 min"), "checkpoint_every must be a number"),
    Case(
        "predictions of none", lambda w: w.sample(out=g.RunFolder(w.new, predict_at=w.x)), "predict_at needs a target"
    ),
    Case(
        "predictions elsewhere",
        lambda w: w.sample(target=w.posterior, out=g.RunFolder(w.new, predict_at=w.x[:, :1])),
        "the module cannot be called on the first rows of x",
    ),
    Case("one temperature", lambda w: g.tempering(w.density, 0.5), "temperatures must be several numbers"),
    Case("temperature", lambda w: g.tempering(w.density, [1.0, -1.0]), "temperature must be a positive number, got -1"),
    Case("sweep's kernel", lambda w: g.tempering(w.density, [1.0], ggmc.HMC), "kernel must be a kernel such as"),
    Case("sweep's folder", lambda w: g.tempering(w.density, [1.0], out=w.new), "one out cannot keep several runs"),
    Case("sweep's y", lambda w: g.tempering(w.posterior, [1.0], x=w.x, y=w.y[:3]), "got 12 and 3 rows"),
    Case("sweep's x", lambda w: g.tempering(w.density, [1.0], x=w.x, y=w.y), "need a target that predicts"),
    Case("split", lambda w: g.distributed.init(split="both"), "split must be one of"),
    Case("timeout", lambda w: g.distributed.init(timeout=-1), "timeout must be a positive number"),
    Case("task's lambda", lambda w: g.jug.run(lambda: w.density, out=w.new), "with a name of its own"),
    Case("task's partial", lambda w: g.jug.run(functools.partial(same_density), out=w.new), "with a name of its own"),
    Case("task's kernel", lambda w: g.jug.run(same_density, "HMC", out=w.new), "kernel must be a kernel such as"),
    Case("task's arguments", lambda w: g.jug.run(same_density, None, [1], out=w.new), "arguments must be a dict"),
    Case("task's seed", lambda w: g.jug.run(same_density, out=w.new, seed="a"), "seed must be a whole number"),
    Case("tasks' folder", lambda w: g.jug.chains(same_density, out=None), "text or a Path, got None"),
    Case("no CIFAR-10", lambda w: g.datasets.cifar10(w.folder / "nowhere"), "there is no CIFAR-10 at"),
    Case("no MNIST", lambda w: g.datasets.mnist(w.folder / "nowhere"), "there is no MNIST at"),
    Case("no such UCI set", lambda w: g.datasets.uci("../boston", w.folder), "name"),
    Case("a report of nothing", lambda w: g.report.write([], w.new), "report"),
    Case("a report of a number", lambda w: g.report.write(3, w.new), "report"),
]
