"""`emsco-inspect`: what is in a bundle, before anyone trusts it. Nothing of the bundle is executed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emsco_runtime.cli.console import OneLineParser, add_verify_option, format_costs, format_number, format_table, run_command
from emsco_runtime.support.formatting import escape_controls, percent, percent_at_least, percent_at_most, pluralize, shorten

if TYPE_CHECKING:
    from emsco_runtime.bundle.manifest import (
        Certificate,
        Expected,
        Feature,
        Manifest,
        RawValue,
        Stage,
        WeightedCounts,
        WrongShare,
    )

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = OneLineParser(
        prog="emsco-inspect",
        description="Show the stages, features, costs, thresholds, expected figures and certificate of a bundle. "
        "Hashes and structure are checked; nothing of the bundle is executed.",
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="the bundle folder")
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON, with the costs of the stages")
    add_verify_option(parser)
    options = parser.parse_args(arguments)
    return run_command("emsco-inspect", lambda: _inspect(options.bundle, options.verify, as_json=options.json))


def _inspect(path: str, verify: str | None, *, as_json: bool) -> None:
    from emsco_runtime.bundle.reading import read_bundle  # noqa: PLC0415 - after the arguments: --help must answer at once

    manifest = read_bundle(path, verify=verify).manifest
    print(_to_json(manifest) if as_json else _format_manifest(manifest))


def _to_json(manifest: Manifest) -> str:
    added, total = zip(*manifest.stage_costs(), strict=True)
    costs = {"stage": added, "cumulative": total, "all_features": manifest.meter().total}
    return json.dumps(manifest.model_dump(mode="json") | {"costs": costs}, indent=2, ensure_ascii=False)


def _format_manifest(manifest: Manifest) -> str:
    costs, all_features = manifest.stage_costs(), format_number(manifest.meter().total)
    least, most = format_number(costs[0].total), format_number(costs[-1].total)
    header_lines = [
        f"{manifest.name}  version {manifest.version}  created {manifest.created}",
        f"id           {manifest.id}",
        f"labels       {', '.join(map(str, manifest.labels))}",
        f"cost         {least} to {most} {manifest.cost_unit} an item; all features of the design: {all_features}",
    ]
    stages = [
        [
            str(number),
            str(len(stage.acquire)),
            format_number(cost.added),
            format_number(cost.total),
            _format_thresholds(stage),
            str(exits.accepted),
            percent(exits.right, exits.accepted),
            _join_names(stage.acquire),
        ]
        for number, (stage, cost, exits) in enumerate(zip(manifest.stages, costs, manifest.expected.stages, strict=True), start=1)
    ]
    stage_of = {name: str(number) for number, stage in enumerate(manifest.stages, start=1) for name in stage.acquire}
    return "\n\n".join(
        [
            _join_lines(header_lines),
            format_table(["stage", "features", "adds", "total", "threshold", "exits", "right", "acquires"], stages),
            format_table(
                ["feature", "kind", "cost", "group", "stage", "if missing", "if unknown", "fallback"],
                [_feature_row(feature, stage_of.get(feature.name, "-")) for feature in manifest.features],
            ),
            *([_format_labels(manifest.expected)] if manifest.expected.labels else []),
            _join_lines(_format_footer(manifest)),
            *([] if manifest.certificate is None else [_format_label_bounds(manifest.certificate)]),
        ]
    )


def _format_labels(expected: Expected) -> str:
    from emsco_runtime.bundle.label_figures import COLUMNS, label_rows  # noqa: PLC0415 - loads pydantic; --help must answer at once

    return format_table([f"expected {COLUMNS[0]}", *COLUMNS[1:]], label_rows(expected.labels))


def _format_footer(manifest: Manifest) -> list[str]:
    from emsco_runtime.bundle.label_figures import describe_base_rate, describe_missed_labels  # noqa: PLC0415 - as below
    from emsco_runtime.bundle.summary import describe_certificate, describe_likely  # noqa: PLC0415 - loads numpy; --help must answer at once

    expected = manifest.expected
    figures = f"coverage {percent(expected.accepted, expected.rows)}, accuracy {percent(expected.right, expected.accepted)}"
    by_weight = expected.weighted
    groups = [f"{group.name} ({format_number(group.cost)})" for group in manifest.groups]
    versions = [f"{name} {version}" for name, version in sorted(manifest.provenance.versions.items())]
    return [
        *([f"groups       {', '.join(groups)}"] if groups else []),
        f"expected     {figures} on {pluralize(expected.rows, f'{expected.split} row')}",
        f"             cost mean {format_number(expected.cost.mean)} {manifest.cost_unit}, {format_costs(expected.cost)}",
        *([] if by_weight is None else [f"             {_format_weighted(by_weight, manifest.cost_unit)}"]),
        *([] if expected.likely is None else [f"likely       {describe_likely(expected.likely, manifest.cost_unit)}"]),
        *([f"base rate    {describe_base_rate(expected.labels)}"] if expected.labels else []),
        *(f"caution      {text}" for text in describe_missed_labels(expected.labels)),
        *describe_certificate(manifest.certificate, manifest.cost_unit),
        f"golden       {pluralize(len(manifest.golden), 'item')}, replayed whenever the bundle is loaded",
        f"made with    {', '.join(versions) or 'unknown versions'}",
    ]


def _format_weighted(counts: WeightedCounts, unit: str) -> str:
    shares = f"coverage {percent(counts.accepted, counts.units)}, accuracy {percent(counts.right, counts.accepted)}"
    return f"by weight: {shares}, cost mean {format_number(counts.mean_cost)} {unit}"


def _format_label_bounds(certificate: Certificate) -> str:
    header = ["certified label", "accepted as it", "wrong", "at most", "truly it", "accepted wrongly", "at most"]
    rows = [[str(label.label), *_format_bound(label.accepted_as), *_format_bound(label.true)] for label in certificate.labels]
    recalls = [label.recall for label in certificate.labels if label.recall is not None]
    if len(recalls) == len(rows):
        header += ["accepted rightly", "at least"]
        rows = [[*row, str(recall.right), percent_at_least(recall.lower)] for row, recall in zip(rows, recalls, strict=True)]
    return format_table(header, rows)


def _format_bound(share: WrongShare) -> list[str]:
    return [str(share.rows), str(share.wrong), percent_at_most(share.upper)]


def _format_thresholds(stage: Stage) -> str:
    if len(set(stage.thresholds.values())) == 1:
        return format_number(next(iter(stage.thresholds.values())))
    return ", ".join(f"{label} {format_number(threshold)}" for label, threshold in stage.thresholds.items())


def _join_lines(lines: Sequence[str]) -> str:
    """Return lines as text; what a bundle says stays in its line, and cannot pass for another one."""
    return "\n".join(map(escape_controls, lines))


def _join_names(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f", ... ({len(names) - most} more)" if len(names) > most else "")


def _feature_row(feature: Feature, stage: str) -> list[str]:
    return [
        feature.name,
        _format_kind(feature),
        format_number(feature.cost),
        ", ".join(feature.all_groups) or "-",
        stage,
        feature.missing,
        feature.unknown if feature.kind == "categorical" else "-",
        "-" if feature.fallback is None else _format_fallback(feature.fallback),
    ]


def _format_kind(feature: Feature) -> str:
    count = feature.width if feature.kind == "vector" else len(feature.categories)
    return f"{feature.kind} ({count})" if feature.kind in ("vector", "categorical") else feature.kind


def _format_fallback(fallback: RawValue) -> str:
    return shorten(", ".join(map(format_number, fallback)), 24) if isinstance(fallback, tuple) else str(fallback)


if __name__ == "__main__":
    sys.exit(main())
