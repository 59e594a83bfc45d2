"""From the options of `emsco-train` to a request."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TypeVar, get_args

from emsco_runtime.support.missing_words import MISSING_WORDS, parse_missing_words
from emsco_train.data.features import Kind
from emsco_train.data.splits import Shares
from emsco_train.data.stage_settings import ClassWeight
from emsco_train.errors import DesignError
from emsco_train.runs.request import TrainRequest, UnknownCategoryPolicy, parse_threshold
from emsco_train.runs.source import Columns
from emsco_train.search.search_rows import SearchRows
from emsco_train.search.settings import Constraints, Settings
from emsco_train.support.label_numbers import parse_label_numbers

__all__ = ["make_request", "parse_class_weight", "parse_pairs", "parse_shares"]

_Choice = TypeVar("_Choice", bound=str)


def make_request(options: argparse.Namespace) -> TrainRequest:
    """Return the request that the options describe; a `DesignError` names the first option that is wrong."""
    splits: dict[str | None, str] = {None: options.data} if options.data is not None else {}
    splits |= {name: getattr(options, name) for name in ("train", "validation", "test", "certify") if getattr(options, name)}
    kinds = parse_pairs(options.kind, "--kind", get_args(Kind))
    # A word for all columns is kept under "".
    unknown = [text if "=" in text else f"={text}" for text in options.unknown]
    return TrainRequest(
        paths=splits,
        columns=Columns(
            options.label,
            options.group_column,
            options.time_column,
            tuple(options.drop),
            kinds,
            weight=options.weight_column,
            missing=MISSING_WORDS if options.missing is None else parse_missing_words(options.missing),
            drop_labels=tuple(options.drop_label),
        ),
        # The table check needs none.
        thresholds=tuple(parse_threshold(text) for text in options.threshold) or (1.0,) * options.check,
        costs=options.costs,
        shares=parse_shares(options.shares),
        folds=options.folds,
        method=options.search,
        start=options.start,
        settings=Settings(
            max_stages=options.max_stages,
            population=options.population,
            generations=options.generations,
            patience=options.patience,
            mutation=options.mutation,
            crossover=options.crossover,
            elite=options.elite,
            beta=options.beta,
            growth=options.growth,
            keep_all=options.keep_all,
            units=options.units,
            constraints=Constraints(
                max_cost=options.max_cost, min_coverage=options.min_coverage, min_accuracy=options.min_accuracy
            ),
            objective=options.objective,
            polish=options.polish,
        ),
        pinned=tuple(options.pin),
        seed=options.seed,
        jobs=options.jobs,
        time_limit=options.time_limit,
        max_search_rows=parse_search_rows(options.max_search_rows),
        C=options.C,
        class_weight=parse_class_weight(options.class_weight),
        calibrate=options.calibrate,
        stages=options.stages,
        upgrade=options.upgrade,
        increasing=tuple(options.increasing),
        decreasing=tuple(options.decreasing),
        certify_uses=options.certify_uses,
        unknown=parse_pairs(unknown, "--unknown", get_args(UnknownCategoryPolicy)),
        min_category=options.min_category,
    )


def parse_search_rows(text: str) -> SearchRows:
    """Read how many rows to search on: a number, all, or auto.

    Examples
    --------
    >>> parse_search_rows("20000"), parse_search_rows("all"), parse_search_rows("auto")
    (20000, None, 'auto')
    """
    if text == "auto":
        return "auto"
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise DesignError(f"--max-search-rows {text!r}: expected a whole number of rows, all, or auto")
    return int(text)


def parse_pairs(given: Sequence[str], option: str, allowed: Sequence[_Choice]) -> dict[str, _Choice]:
    """Read options of the form NAME=WORD.

    Examples
    --------
    >>> parse_pairs(["size=numeric"], "--kind", ["numeric", "categorical"])
    {'size': 'numeric'}
    """
    found: dict[str, _Choice] = {}
    for text in given:
        name, equals, word = text.rpartition("=")
        match = next((one for one in allowed if one == word), None)
        if not equals or match is None:
            expected = f"expected COLUMN=WORD, with one of the words {', '.join(allowed)}"
            raise DesignError(f"{option} {text.removeprefix('=')!r}: {expected}")
        if name in found:
            what = f"the column {name!r}" if name else "a word for all columns"
            raise DesignError(f"{option} {text.removeprefix('=')!r}: {what} is given twice: give it once")
        found[name] = match
    return found


def parse_shares(text: str | None) -> Shares | None:
    """Read the shares of the four splits.

    Examples
    --------
    >>> parse_shares("0.5,0.25,0.25,0")
    Shares(train=0.5, validation=0.25, test=0.25, certify=0.0)
    """
    if text is None:
        return None
    parts = [_parse_share(part, text) for part in text.split(",")]
    if len(parts) != 4:
        raise DesignError(f"--shares {text!r}: expected four numbers, for train, validation, test and certify")
    return Shares(*parts)


def parse_class_weight(text: str | None) -> ClassWeight:
    """Read class weights: balanced, or LABEL=NUMBER,LABEL=NUMBER.

    Examples
    --------
    >>> parse_class_weight("ham=1,spam=2"), parse_class_weight("balanced")
    ({'ham': 1.0, 'spam': 2.0}, 'balanced')
    """
    if text is None:
        return None
    if text == "balanced":
        return "balanced"
    return parse_label_numbers(text, "--class-weight", "balanced, or LABEL=NUMBER,LABEL=NUMBER")


def _parse_share(part: str, whole: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise DesignError(f"--shares {whole!r}: {part!r} is not a number") from None
