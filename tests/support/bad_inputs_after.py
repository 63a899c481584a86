"""Bad calls on runs, traces, modules and training loops, with the error and the message that each must get."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.distributions import HalfNormal, Normal, Poisson
from torch.utils.data import TensorDataset

import ggmc
from ggmc.errors import NotExact
from tests.support.earlier_work import Case, World, g, o, quartic, zero_net

NAN = math.nan
m: Any = ggmc.metrics
p: Any = ggmc.priors
like: Any = ggmc.likelihoods


def other_density() -> ggmc.Density:
    return ggmc.Density(lambda x: 2 * quartic(x), torch.zeros(2, dtype=torch.float64))


def loaded(w: World, target: Any) -> None:
    g.load(w.run).target = target


RUNS = [
    Case("resume nothing", lambda w: g.resume(w.new, w.density), "there is no run in"),
    Case("resume a folder", lambda w: g.resume(w.other, w.density), "there is no run in"),
    Case("resume no path", lambda w: g.resume(None, w.density), "text or a Path, got None"),
    Case("resume swapped", lambda w: g.resume(w.density, w.run), "text or a Path, got Density"),
    Case("resume RunFolder", lambda w: g.resume(g.RunFolder(w.run), w.density), "text or a Path, got RunFolder"),
    Case("resume another", lambda w: g.resume(w.run, other_density()), "not the target of the run .* fixed point was"),
    Case("resume a function", lambda w: g.resume(w.run, quartic), "target must be a target such as"),
    Case("resume to zero", lambda w: g.resume(w.run, w.density, 0), "draws must be a whole number of at least 1"),
    Case("resume saved", lambda w: g.resume(w.saved, w.posterior), "a saved trace, not a run that could go on"),
    Case("resume kernel", lambda w: g.resume(w.run, w.density, kernel=g.HMC(0.2, 3)), "step_size was 0.3, is 0.2"),
    Case("resume by name", lambda w: g.resume(w.run, w.density, kernel="HMC"), "kernel must be a kernel such as"),
    Case("resume callback", lambda w: g.resume(w.run, w.density, 9, callback=[]), "callback must be a function of one"),
    Case("resume a loop", lambda w: g.resume(w.folder / "loop", w.loop.posterior), "run its own program again"),
    Case("load nothing", lambda w: g.load(w.file), "there is no run in"),
    Case("load None", lambda w: g.load(None), "text or a Path, got None"),
    Case("load no runs", lambda w: g.load([]), "at least one"),
    Case("load numbers", lambda w: g.load([1, 2]), "text or a Path, got 1"),
    Case("load twice", lambda w: g.load([w.run, w.run]), "two of the traces begin with the same draws"),
    Case("load different", lambda w: g.load([w.run, w.saved]), "is a run of another target than"),
    Case("load another", lambda w: g.load(w.run, w.posterior), "not the target of the run"),
    Case("load a function", lambda w: g.load(w.run, quartic), "target must be a target such as"),
    Case("merge one", lambda w: g.merge(w.draws), "merge needs traces, at least one"),
    Case("merge widths", lambda w: g.merge([w.draws, w.trace]), r"rows of one length, got lengths \[2, 3\]"),
    Case("save over a run", lambda w: w.draws.save(w.run), "is not an empty folder"),
    Case("save over a file", lambda w: w.draws.save(w.file), "is not an empty folder"),
    Case("save below a file", lambda w: w.draws.save(w.file / "x"), "cannot be made"),
    Case("target a function", lambda w: loaded(w, quartic), "target must be a target such as"),
    Case("target too wide", lambda w: loaded(w, w.posterior), "the draws have 2 numbers each"),
]

TRACES = [
    Case("name", lambda w: w.draws["thetta"], r"no values named 'thetta': it has \[.theta.\]", KeyError),
    Case("thin", lambda w: w.draws.rows(0), "thin must be a whole number of at least 1, got 0"),
    Case("predict a density", lambda w: w.draws.predict(w.x), "predictions need a target"),
    Case("predict features", lambda w: w.trace.predict(torch.zeros(3, 5)), "module cannot be called on the first rows"),
    Case("predict one row", lambda w: w.trace.predict(w.x[0]), r"for a single input, give x\[None\]"),
    Case("predict whole", lambda w: w.trace.predict(w.x.long()), "cannot be called .* same dtype"),
    Case("predict NaN", lambda w: w.trace.predict(w.x * NAN), "x has nan in row 0"),
    Case("predict a list", lambda w: w.trace.predict([[0.0, 1.0]]), "must be tensors or arrays of numbers, got float"),
    Case("predict nothing", lambda w: w.trace.predict(w.x[:0]), "at least one row"),
    Case("predict seed", lambda w: w.trace.predict(w.x, seed="a"), "seed must be a whole number"),
    Case("interval", lambda w: w.trace.predict(w.x).interval("0.9"), "level must be a number, got '0.9'"),
    Case("interval of classes", lambda w: w.votes.predict(w.x).interval(), "classes have no intervals"),
    Case("score lengths", lambda w: w.trace.score(w.x, w.y[:3]), "got 12 and 3 rows"),
    Case("score labels", lambda w: w.votes.score(w.x, w.labels + 1), "labels must be 0 … 2 .* got 3 in row 2"),
    Case("score one-hot", lambda w: w.votes.score(w.x, torch.eye(3)[w.labels]), "numbers in place of one-hot rows"),
    Case("summary features", lambda w: w.trace.predictive_summary(w.x[:, :1]), "module cannot be called"),
    Case("likelihoods", lambda w: w.draws.to_arviz(log_likelihood=True), "log likelihoods need a target"),
    Case("likelihood of three", lambda w: w.trace.log_likelihood((w.x, w.y, w.y)), r"must give pairs \(x, y\)"),
    Case("temperatures", lambda w: w.trace.temperatures(level="0.95"), "level must be a number"),
    Case("prior draws", lambda w: w.posterior.prior_predictive(w.x, draws=0), "draws must be a whole number"),
    Case("sums", lambda w: m.nll([[0.5, 0.2]], [0]), "probabilities must sum to one over classes, got 0.7"),
    Case("logits", lambda w: m.accuracy([[2.0, -1.0]], [0]), "must not be negative or NaN, got -1: use softmax"),
    Case("label", lambda w: m.brier([[0.5, 0.5]], [2]), "labels must be whole numbers from 0 to 1, got 2"),
    Case("complex", lambda w: m.rmse(torch.ones(2) + 0j, [1.0, 1.0]), "mean must be real numbers"),
    Case("column", lambda w: m.rmse([[1.0], [2.0]], [1.0, 2.0]), "shapes must be the same"),
    Case("bins", lambda w: m.ece([[0.5, 0.5]], [0], bins=0), "bins must be a whole number of at least 1"),
]

BAYES = [
    Case("a class", lambda w: w.posterior_of(nn.Linear), r"module must be a torch\.nn\.Module"),
    Case("lengths", lambda w: w.posterior_of(y=w.y[:3]), "one row per example each, got 12 and 3 rows"),
    Case("NaN", lambda w: w.posterior_of(x=w.x * NAN), "x has nan in row 0"),
    Case("lists", lambda w: w.posterior_of(y=w.y.tolist()), "must be tensors or arrays of numbers, got list"),
    Case("extra dimension", lambda w: w.posterior_of(y=w.y[:, None, None]), "needs one output per outcome"),
    Case("truths", lambda w: w.posterior_of(y=w.y > 0), r"Gaussian needs numbers .*got torch.bool.*Bernoulli"),
    Case("float labels", lambda w: w.posterior_of(w.net3, "categorical", y=w.y), r"integer dtype.*use y\.long\(\)"),
    Case("labels", lambda w: w.posterior_of(w.net3, "categorical", y=w.labels + 5), "labels must be 0 … 2"),
    Case("counts", lambda w: w.posterior_of(likelihood="poisson"), "Poisson needs counts 0, 1, 2"),
    Case("likelihood", lambda w: w.posterior_of(likelihood="gausian"), "likelihood must be one of categorical"),
    Case(
        "a loss",
        lambda w: w.posterior_of(likelihood=lambda out, y: (out - y[:, None]).mean()),
        "return one term per example",
    ),
    Case("prior a number", lambda w: w.posterior_of(prior=1.0), r"a prior must be one of ggmc\.priors"),
    Case("no prior", lambda w: w.posterior_of(prior={"weight": p.Gaussian()}), "no prior for bias"),
    Case("half a prior", lambda w: w.posterior_of(prior=HalfNormal(1.0)), "must cover all real numbers"),
    Case("start", lambda w: w.posterior_of(start="mle"), "start must be one of apart, module, prior, map"),
    Case("none sampled", lambda w: w.posterior_of(sampled=[]), "sampled must be a pattern of names"),
    Case("views", lambda w: w.posterior_of(views=ggmc.nets.FrozenViews), "the class FrozenViews: make one"),
    Case("features", lambda w: w.posterior_of(x=w.x[:, :1]), "the module cannot be called on the first rows of x"),
    Case("no pairs", lambda w: w.posterior_of(x=TensorDataset(w.x), y=None), r"must give pairs \(x, y\)"),
    Case("noise", lambda w: like.Gaussian(-1.0), "noise must be a positive number, got -1.0"),
    Case("noise in counts", lambda w: like.Gaussian(Poisson(1.0)), "the noise must be continuous"),
    Case("noise of any sign", lambda w: like.StudentT(Normal(0.0, 1.0)), "the noise must be positive"),
    Case("no function", lambda w: like.Given(None), "must be one of output and y, got None"),
    Case("scale", lambda w: p.Laplace(0), "scale must be a positive number, got 0"),
    Case("fan-in", lambda w: p.Gaussian(1.0, fan_in="yes"), "fan_in must be True or False"),
    Case("sizes", lambda w: g.nets.MLP(None), "sizes must be those of the inputs"),
    Case("activation", lambda w: g.nets.MLP([2, 3, 1], nn.Tanh()), "such as nn.Tanh, got Tanh"),
    Case("no module", lambda w: g.replace_batchnorm(None), "module"),
]

OPTIM = [
    Case("no num_data", lambda w: o.GGMC(zero_net(), 0.1, 0.9), "num_data", TypeError),
    Case("num_data", lambda w: w.optimiser(num_data=0), "num_data must be a whole number of at least 1, got 0"),
    Case("num_data's data", lambda w: w.optimiser(num_data=w.x), "num_data must be a whole number"),
    Case("lr", lambda w: w.optimiser(lr=NAN, kind=o.SGLD), "lr must be zero or a positive number, got nan"),
    Case("two lrs", lambda w: w.optimiser(lr=torch.ones(2), kind=o.HMC), "lr must be one number"),
    Case("momentum", lambda w: w.optimiser(momentum=1.5), "momentum must lie between 0 and 1"),
    Case("momentum text", lambda w: w.optimiser(momentum="0.9", kind=o.SGHMC), "momentum must be a number"),
    Case("seed", lambda w: w.optimiser(seed=1.5), "seed must be a whole number"),
    Case("a class", lambda w: w.optimiser(nn.Linear), "got the class Linear: make one"),
    Case("a posterior", lambda w: w.optimiser(w.posterior), "expected a module, parameters or groups"),
    Case("NaN", lambda w: w.optimiser([torch.full((2,), NAN, requires_grad=True)]), "parameter 0 is not finite"),
    Case("scheme", lambda w: w.optimiser(scheme="OBXBO"), "scheme"),
    Case("no gradient", lambda w: w.optimiser().step(), r"call loss\.backward\(\) before step\(\)"),
    Case("closure", lambda w: w.optimiser().step(3.0), "closure must be a function that computes the loss"),
    Case("no beginning", lambda w: w.loop.optimiser.end_trajectory(), r"begin_trajectory\(\) first"),
    Case("loss text", lambda w: w.trajectory(lambda: "3.0"), "potential must be one number.*got '3.0'"),
    Case("loss nothing", lambda w: w.trajectory(lambda: None), "potential must be one number.*got None"),
    Case("loss a vector", lambda w: w.trajectory(lambda: torch.ones(2)), r"got shape \(2,\): sum it"),
    Case("loss NaN", lambda w: w.trajectory(lambda: NAN, reject=True), "began at a potential of nan"),
    Case("loss a number", lambda w: w.trajectory(3.0), "at a midpoint, half a step further"),
    Case("begin NaN", lambda w: w.trajectory(None, begin=NAN), "would begin at a potential of nan"),
    Case("test blind", lambda w: w.trajectory(None, reject=True), "reject=True needs the potential at the end"),
    Case("test a word", lambda w: w.trajectory(lambda: 1.0, reject="no"), "reject must be True or False"),
    Case("state", lambda w: w.loop.optimiser.load_state_dict(None), r"the dict that state_dict\(\) gave"),
    Case("SGD's state", lambda w: w.loop.optimiser.load_state_dict({"state": {}}), "state of another optimiser"),
    Case("collect a name", lambda w: w.collector(module="net"), "module must be the torch.nn.Module"),
    Case("collect a class", lambda w: w.collector(optimiser=o.GGMC), r"must be a sampler of ggmc\.optim"),
    Case("collect a density", lambda w: w.collector(posterior=w.density), "posterior must be a ggmc.Posterior of the"),
    Case("collect another", lambda w: w.collector(posterior=w.classes), "of other unknowns than the optimiser samples"),
    Case("collect over a run", lambda w: w.collector(out=w.run), r"holds a run of ggmc\.sample"),
    Case("collect over a trace", lambda w: w.collector(out=w.saved), "a saved trace, not a loop that could go on"),
    Case("collect numbers", lambda w: w.collector(also={"epoch": 3}), "generators and of things with a state_dict"),
    Case("collected twice", lambda w: w.collector(out=w.folder / "loop"), "another run is writing to"),
    Case("add text", lambda w: w.loop.draws.add("draw"), r"add\(\) takes what end_trajectory\(\) returned"),
    Case("SGHMC tested", lambda w: _sghmc().end_trajectory(reject=True), "Theorem 1", NotExact),
]


def _sghmc() -> Any:
    return o.SGHMC(zero_net(), lr=0.01, momentum=0.9, num_data=12, seed=0)
