"""Programs with known truth: no benign change diverges, no defect of the mathematics is missed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus import Array, Bench, Family, Judged, Variant
from frameworks import need
from jax_families import FAMILIES as JAX
from numpy_families import FAMILIES as NUMPY
from triton_families import FAMILIES as TRITON
from triton_library_families import FAMILIES as LIBRARIES

# In the interpreter one of the libraries' families takes minutes: all of them are for REPLAY_TEST_CORPUS=all.
IN_EACH_RUN = {"swiglu"}


def takes_all() -> bool:
    return os.environ.get("REPLAY_TEST_CORPUS") == "all"


SOME = [family for family in LIBRARIES if takes_all() or family.name in IN_EACH_RUN]
FAMILIES = [*NUMPY, *JAX, *TRITON, *SOME]
# The largest relative error in L2 that float32 arithmetic makes here, of the native outputs.
PRECISE = 2.0**-15
# A unit in the last place of float32.
UNIT = 2.0**-23

MODULES = {"numpy": ["ml_dtypes"], "jax": ["jax"], "torch": ["torch", "triton"]}

table: Counter[tuple[str, str, str]] = Counter()


def named(family: Family) -> str:
    return f"{family.framework}-{family.name}"


@pytest.fixture(scope="session")
def replay() -> Path:
    path = os.environ.get("REPLAY")
    if path is None:
        pytest.skip("REPLAY does not name the replay program: its verdicts are not tested")
    return Path(path)


@pytest.fixture(scope="module", autouse=True)
def printed() -> Iterator[None]:
    """The table, printed when all has been judged."""
    yield
    verdicts = ("identical", "equivalent", "unchecked", "diverged", "failed")
    print("\n| framework | truth |", " | ".join(verdicts), "|")
    for framework in ("numpy", "jax", "torch"):
        for truth in ("benign", "wrong", "imprecise", "between"):
            counts = [table[framework, truth, verdict] for verdict in verdicts]
            print(f"| {framework} | {truth} |", " | ".join(map(str, counts)), "|")


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_replay_tells_rounding_from_defects(family: Family, tmp_path: Path, replay: Path) -> None:
    for framework in MODULES[family.framework]:
        need(framework)
    bench = Bench(family, tmp_path, replay)
    missed = []
    variants = versions_of(family)
    with ThreadPoolExecutor(2) as pool:
        judgements = list(pool.map(bench.judge, variants, repeat(kinds_of(family))))
    for variant, judged in zip(variants, judgements, strict=True):
        truths = truth_of(family, variant)
        for kind, judgement in judged.items():
            truth = truths[kind]
            table[family.framework, truth, judgement.verdict] += 1
            if (problem := mistake(truth, judgement, variant.may_be_called_wrong)) is not None:
                missed.append(f"{truth} `{variant.name}` on {kind}: {problem}")
    assert not missed, "\n".join(missed)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family.gradients], ids=named)
def test_gradients_are_held_against_their_loss(
    family: Family, tmp_path: Path, replay: Path
) -> None:
    for framework in MODULES[family.framework]:
        need(framework)
    bench = Bench(family, tmp_path, replay)
    kind = next(iter(family.data()))
    assert set(bench.check_gradients(None, kind).values()) == {"matches"}
    # The first wrong version is one of the gradient alone.
    defect = next(variant for variant in family.variants if variant.truth == "wrong")
    assert "mismatch" in bench.check_gradients(defect, kind).values(), defect.name


@pytest.mark.parametrize("family", [family for family in FAMILIES if family.races], ids=named)
def test_races_of_a_grid_are_found_where_there_are_any(
    family: Family, tmp_path: Path, replay: Path
) -> None:
    for framework in MODULES[family.framework]:
        need(framework)
    bench = Bench(family, tmp_path, replay)
    kind = next(iter(family.data()))
    assert bench.check_accesses(None, kind) == []
    for variant in family.races:
        kinds = {finding["kind"] for finding in bench.check_accesses(variant, kind)}
        assert "race" in kinds, variant.name


def versions_of(family: Family) -> Sequence[Variant]:
    """The versions that are replayed: the first of each truth, unless all are asked for."""
    if takes_all():
        return family.variants
    first = {variant.truth: variant for variant in reversed(family.variants)}
    return list(first.values())


def kinds_of(family: Family) -> list[str]:
    """The kinds of data that are replayed: the first, unless all are asked for."""
    kinds = list(family.data())
    return kinds if takes_all() else kinds[:1]


def mistake(truth: str, judgement: Judged, or_wrong: bool = False) -> str | None:
    """In what a judgement is not the truth."""
    seen = f"{judgement.verdict}, {judgement.outputs}"
    if truth == "benign":
        return None if judgement.verdict in ("identical", "equivalent", "unchecked") else seen
    if truth == "wrong" and judgement.verdict == "failed":
        # It is a fault by itself, such as a number that is not finite.
        return None
    # Without a twin of its own that tells them apart, replay does not say imprecise or wrong.
    told = {truth, "less-accurate", None} if truth == "imprecise" else {truth}
    if or_wrong:
        told.add("wrong")
    return None if told & judgement.findings or truth == "between" else seen


@pytest.mark.parametrize("family", NUMPY, ids=named)
def test_versions_are_what_they_are_said_to_be(family: Family) -> None:
    for variant in family.variants:
        found = set(truth_of(family, variant).values())
        if variant.truth == "benign":
            assert found == {"benign"}, f"{family.name}, {variant.name}: {found}"
        else:
            # Some data do not show it.
            assert variant.truth in found, f"{family.name}, {variant.name}: {found}"


# The truth, computed without replay


def truth_of(family: Family, variant: Variant) -> dict[str, str]:
    """What a version is on each kind of data. In extended precision benign and imprecise versions
    agree with the first one; the errors of native outputs against it tell these apart."""
    kinds = family.data()
    if family.framework != "numpy":
        return {kind: variant.truth for kind in kinds}
    return {kind: truth_on(family, variant, data) for kind, data in kinds.items()}


def truth_on(family: Family, variant: Variant, data: dict[str, Array]) -> str:
    text = family.text(variant)
    truth = computed(family.text(), data, wide=True)
    errors = relative(computed(family.text(), data, wide=False), truth)
    with np.errstate(all="ignore"):
        apart = relative(computed(text, data, wide=True), truth)
        own = relative(computed(text, data, wide=False), truth)
    # Imprecise versions round to a narrow type in extended precision, too.
    if variant.truth == "wrong":
        # Less than float32 can hold is no defect here.
        return "wrong" if any(not x < UNIT for x in apart.values()) else "between"
    if variant.truth == "benign":
        close = all(own[name] <= 4 * errors[name] + 1e-6 for name in own)
        return "benign" if close and max(apart.values()) < 1e-9 else "between"
    worse = any(own[name] > max(PRECISE, 8 * errors[name]) for name in own)
    return "imprecise" if worse else "between"


def computed(text: str, data: dict[str, Array], *, wide: bool) -> dict[str, Array]:
    """The outputs of a program on data whose floats are wide, or as they are."""
    module: dict[str, Any] = {}
    exec(text, module)
    is_float = {name: array.dtype.kind not in "biu" for name, array in data.items()}
    inputs = {
        name: array.astype(np.longdouble) if wide and is_float[name] else array.copy(order="K")
        for name, array in data.items()
    }
    outputs: dict[str, Array] = module["step"](**inputs)
    return {name: np.asarray(array).astype(np.longdouble) for name, array in outputs.items()}


def relative(got: dict[str, Array], truth: dict[str, Array]) -> dict[str, float]:
    """How far outputs lie from the truth, relative, in L2."""
    far = {name: np.linalg.norm((got[name] - truth[name]).ravel()) for name in truth}
    return {name: float(far[name] / np.linalg.norm(truth[name].ravel())) for name in truth}
