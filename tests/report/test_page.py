from __future__ import annotations

import builtins
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ggmc
from ggmc.errors import BadInput
from ggmc.report.findings import find
from ggmc.report.scores import scores
from ggmc.report.settings import as_code, how_to_repeat
from ggmc.sampling.request import Request
from ggmc.sampling.sample import begin
from tests.support.gaussians import gaussian
from tests.support.pages import Page
from tests.support.traces import Gaussian, trace_of, white_noise

SCRIPT = "<script>alert(1)</script>"
QUOTE = '"onmouseover="alert(2)'


def check_form(page: Page) -> None:
    """What every page must have: one title, headings in order, names for pictures, nothing from elsewhere."""
    assert page.source.startswith('<!DOCTYPE html>\n<html lang="en">')
    headings = page.headings()
    assert headings.count(1) == 1
    assert headings[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    for reference in [*page.values("aria-labelledby"), *(h[1:] for h in page.values("href"))]:
        assert reference in ids
    assert page.unnamed == []
    assert not {"script", "link", "iframe", "img", "object", "base"} & {tag for tag, _ in page.tags}
    assert page.values("src") == []
    assert all(href.startswith("#") for href in page.values("href"))
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", page.source)
    assert "http://" not in page.source
    assert "https://" not in page.source
    assert not [name for _, given in page.tags for name in given if name.startswith("on")]
    assert len(page.source.encode()) < 2_000_000
    assert "nan" not in re.findall(r"\b\w+\b", page.text)


def test_a_good_run(tmp_path: Path) -> None:
    path = ggmc.report.write(trace_of(white_noise(size=12)), tmp_path / "new" / "page.html", command="make run")
    page = Page(path)
    check_form(page)
    assert path == tmp_path / "new" / "page.html"
    for words in ("Trustworthy", "Nothing: use it.", "make run", "Acceptance is 0.80 on average", "None is above 1.01"):
        assert words in page.text
    assert "12 parameters" in page.text
    assert page.text.count("figure") == 0


def test_what_users_name_stays_text(tmp_path: Path) -> None:
    name = f"{SCRIPT} {QUOTE} $x_"
    rows = white_noise(size=2)
    trace = trace_of(rows, Gaussian({name: (2,)}))
    trace.warnings = [f"A warning with {SCRIPT}. Mind {QUOTE}."]
    trace.remarks = [SCRIPT]
    trace.attributes = {"seed": SCRIPT, "note": QUOTE}
    page = Page(
        ggmc.report.write({name: trace, "b": trace}, tmp_path / "p.html", title=name, command=f"{SCRIPT}{QUOTE}")
    )
    check_form(page)
    assert page.text.count(SCRIPT) > 5
    assert page.text.count(QUOTE) > 3


def test_a_folder_with_markup_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "<script>alert(1)<" / f'{QUOTE} "'
    trace_of(white_noise(draws=50)).save(folder)
    page = Page(ggmc.report.write(folder, tmp_path / "p.html"))
    check_form(page)
    assert "<script>alert(1)<" in page.text
    assert QUOTE in page.text


def test_several_runs_are_compared_first(tmp_path: Path) -> None:
    good, biased = trace_of(white_noise()), trace_of(white_noise(), kernel=ggmc.GGMC(0.1, adjust=False))
    page = Page(ggmc.report.write({"first": good, "second": biased}, tmp_path / "p.html"))
    check_form(page)
    assert "1 of 2 runs is trustworthy." in page.text
    assert page.source.index("<table") < page.source.index("<details")
    assert sum(tag == "details" and given.get("class") == "run" for tag, given in page.tags) == 2
    for words in ("first Trustworthy 0.80", "second Not exact"):
        assert words in page.text


def test_a_list_of_runs_has_names(tmp_path: Path) -> None:
    trace = trace_of(white_noise(draws=20))
    trace.save(tmp_path / "a" / "run")
    trace.save(tmp_path / "b" / "run")
    page = Page(ggmc.report.write([trace, tmp_path / "a" / "run", tmp_path / "b" / "run"], tmp_path / "p.html"))
    check_form(page)
    for name in ("Run 1", "run", "run (3)"):
        assert name in page.text


def test_many_chains_parameters_and_draws_stay_small(tmp_path: Path) -> None:
    path = ggmc.report.write(trace_of(white_noise(chains=30, draws=3000, size=40)), tmp_path / "p.html")
    check_form(Page(path))
    assert path.stat().st_size < 600_000


@pytest.fixture(scope="module")
def classes() -> Any:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 2, generator=generator, dtype=torch.float64)
    y = (x[:, 0] + 0.3 * torch.randn(80, generator=generator) > 0).long()
    module = torch.nn.Linear(2, 2).double()
    target = ggmc.Posterior(module, "categorical", ggmc.priors.Gaussian(1.0), x, y, vectorise=True)
    return target, x, y


def test_predictions_of_classes(classes: Any, tmp_path: Path) -> None:
    target, x, y = classes
    trace = ggmc.sample(target, draws=60, warmup=60, progress=False)
    page = Page(ggmc.report.write(trace, tmp_path / "p.html", x_test=x, y_test=y))
    check_form(page)
    assert "80 test examples" in page.text
    for score in ("accuracy", "nll", "brier", "ece", "lppd"):
        assert re.search(rf"{score} −?\d\.\d+ ± \d", page.text), score
    assert "The mean confidence is" in page.text
    assert f"{trace.score(x, y)['accuracy']:.3f}" in page.text
    assert "predictions for training inputs" in page.text


def test_the_error_of_a_score_is_the_jackknifes(classes: Any) -> None:
    target, x, y = classes
    trace = ggmc.sample(target, ggmc.HMC(0.2, 3), draws=20, warmup=0, chains=3, progress=False)
    found = scores(find(trace), x, y)
    assert found is not None
    rows = trace.rows()
    without = [target.score(rows[[i for i in range(3) if i != left]].flatten(0, 1), x, y) for left in range(3)]
    for name in ("lppd", "brier"):
        standard_error = np.sqrt(2 * np.var([one[name] for one in without]))  # the jackknife's: n − 1 times a variance
        assert found.errors[name] == pytest.approx(2 * standard_error)


def test_predictions_of_numbers(tmp_path: Path) -> None:
    x = torch.linspace(-1, 1, 40, dtype=torch.float64)[:, None]
    y = x[:, 0] + 0.1 * torch.randn(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    likelihood = ggmc.likelihoods.Gaussian(0.1)
    target = ggmc.Posterior(torch.nn.Linear(1, 1).double(), likelihood, ggmc.priors.Gaussian(1.0), x, y, vectorise=True)
    trace = ggmc.sample(target, draws=60, warmup=60, progress=False)
    page = Page(ggmc.report.write(trace, tmp_path / "p.html", x_test=x, y_test=y))
    check_form(page)
    assert "within their 90 % intervals" in page.text
    assert "rmse" in page.text


def test_test_data_need_a_target_that_predicts(tmp_path: Path) -> None:
    page = Page(ggmc.report.write(trace_of(white_noise()), tmp_path / "p.html", x_test=[[1.0]], y_test=[1.0]))
    check_form(page)
    assert "give target=..." in page.text
    assert "Not trustworthy yet" in page.text


def code_of(folder: Path) -> str:
    return " ".join(code for _, code in how_to_repeat(find(ggmc.load(folder)), []))


def test_code_that_makes_the_run_again(tmp_path: Path) -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
    kernel = ggmc.HMC(step_size=0.5, steps=(2, 4))
    ggmc.sample(target, kernel, draws=20, warmup=3, chains=2, seed=7, out=tmp_path / "run", progress=False)
    page = Page(ggmc.report.write(tmp_path / "run", tmp_path / "p.html"))
    check_form(page)
    assert f"ggmc.sample(target, {as_code(kernel)}, draws=20, warmup=3, chains=2, seed=7, out=...)" in page.text
    assert f"ggmc.resume('{tmp_path / 'run'}', target, draws=...)" in page.text
    assert eval(as_code(kernel), {"ggmc": ggmc}) == kernel
    assert "zarr" in page.text  # versions


def test_code_for_a_run_that_was_made_longer_makes_all_of_it(tmp_path: Path) -> None:
    ggmc.sample(gaussian(), ggmc.MALA(0.5), 20, 3, chains=2, out=tmp_path / "run", progress=False)
    ggmc.resume(tmp_path / "run", gaussian(), draws=35, progress=False)
    assert "draws=35, warmup=3, chains=2, seed=0, out=...)" in code_of(tmp_path / "run")


def test_code_for_a_run_from_given_starts_says_that_they_are_needed(tmp_path: Path) -> None:
    start = torch.ones(2, 2, dtype=torch.float64)
    ggmc.sample(gaussian(), ggmc.MALA(0.5), 20, 3, chains=2, start=start, out=tmp_path / "run", progress=False)
    assert "chains=2, seed=0, start=..., out=...)" in code_of(tmp_path / "run")


def test_code_for_one_of_several_tasks_makes_the_tasks(tmp_path: Path) -> None:
    request = Request(draws=20, warmup=3, chains=6, seed=5, own_seed=5, part=(1, 3))
    begin(gaussian(), ggmc.MALA(0.5), request, ggmc.RunFolder(tmp_path / "1"), progress=False)
    assert "ggmc.jug.chains(make_target, ggmc.MALA(step_size=0.5), draws=20, " in code_of(tmp_path / "1")
    assert "task 1 of 3" in " ".join(why for why, _ in how_to_repeat(find(ggmc.load(tmp_path / "1")), []))


@pytest.mark.parametrize(
    "kernel",
    [
        ggmc.GGMC(guide=ggmc.Minibatch(10, "epoch"), steps="2 sweeps", friction=0.3),
        ggmc.SGLD(0.1, over=ggmc.schedule.Over(10, step_size=ggmc.schedule.Cosine(0.1))),
        ggmc.MALA(),
    ],
)
def test_kernels_as_code_are_the_same_kernels(kernel: Any) -> None:
    assert eval(as_code(kernel), {"ggmc": ggmc}) == kernel


def test_mistakes_are_refused(tmp_path: Path) -> None:
    trace = trace_of(white_noise(draws=10))
    with pytest.raises(BadInput, match="is a folder"):
        ggmc.report.write(trace, tmp_path)
    with pytest.raises(BadInput, match="both x_test and y_test"):
        ggmc.report.write(trace, tmp_path / "p.html", x_test=[1.0])
    with pytest.raises(BadInput, match="a report needs a trace"):
        ggmc.report.write([], tmp_path / "p.html")
    with pytest.raises(BadInput, match="got 3"):
        ggmc.report.write([3], tmp_path / "p.html")  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadInput, match="there is no run in"):
        ggmc.report.write(tmp_path / "nothing", tmp_path / "p.html")
    assert not (tmp_path / "p.html").exists()


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_the_extra_is_named_where_it_is_missing(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *others: Any, **more: Any) -> Any:
        if name.split(".")[0] == missing:
            raise ImportError(f"No module named {missing!r}", name=missing)
        return real(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=rf"needs {missing}: pip install ggmc\[report\]"):
        ggmc.report.write(trace_of(np.zeros((2, 3, 1))), tmp_path / "p.html")
