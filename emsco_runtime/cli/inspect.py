"""`emsco-inspect`: what is in a bundle, before anyone trusts it. Nothing of the bundle is executed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emsco_runtime.cli.console import number, run_command, table

if TYPE_CHECKING:
    from emsco_runtime.bundle.manifest import Certificate, Feature, Manifest, Stage, WrongShare

__all__ = ["describe_certificate", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="emsco-inspect",
        description="Show the stages, features, costs, thresholds, expected figures and certificate of a bundle. "
        "Hashes and structure are checked; nothing of the bundle is executed.",
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="the bundle folder")
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON, with the costs worked out")
    options = parser.parse_args(arguments)
    return run_command("emsco-inspect", lambda: _inspect(options.bundle, as_json=options.json))


def _inspect(path: str, *, as_json: bool) -> None:
    from emsco_runtime.bundle.reading import read_bundle  # noqa: PLC0415 - after the arguments: --help must answer at once

    manifest = read_bundle(path).manifest
    print(_to_json(manifest) if as_json else _format_manifest(manifest))


def _costs(manifest: Manifest) -> tuple[list[float], list[float], float]:
    """Return the cost that each stage adds, the cost up to each stage, and the cost of all features."""
    meter = manifest.meter()
    listed = [stage.acquire for stage in manifest.stages]
    before = [[name for names in listed[:index] for name in names] for index in range(len(listed) + 1)]
    added = [meter.increment(before[index], names) for index, names in enumerate(listed)]
    return added, [meter.cost(names) for names in before[1:]], meter.cost(meter.features)


def _to_json(manifest: Manifest) -> str:
    added, total, all_features = _costs(manifest)
    document = manifest.model_dump(mode="json")
    document["costs"] = {"stage": added, "cumulative": total, "all_features": all_features}
    return json.dumps(document, indent=2, ensure_ascii=False)


def _format_manifest(manifest: Manifest) -> str:
    added, total, all_features = _costs(manifest)
    unit, expected = manifest.cost_unit, manifest.expected
    header_lines = [
        f"{manifest.name}  version {manifest.version}  created {manifest.created}",
        f"id           {manifest.id}",
        f"labels       {', '.join(map(str, manifest.labels))}",
        f"cost         {number(total[0])} to {number(total[-1])} {unit} an item; all features {number(all_features)}",
    ]
    stages = [
        [
            str(index + 1),
            str(len(stage.acquire)),
            number(added[index]),
            number(total[index]),
            _format_thresholds(stage),
            str(expected.stages[index].accepted),
            _percent(expected.stages[index].right, expected.stages[index].accepted),
            _join_names(stage.acquire),
        ]
        for index, stage in enumerate(manifest.stages)
    ]
    return "\n\n".join(
        [
            "\n".join(header_lines),
            table(["stage", "features", "adds", "total", "threshold", "exits", "right", "acquires"], stages),
            table(
                ["feature", "kind", "cost", "group", "stage", "if missing", "if unknown", "fallback"],
                [_feature_row(manifest, feature) for feature in manifest.features],
            ),
            "\n".join(_format_footer(manifest)),
            *([] if manifest.certificate is None else [_format_label_bounds(manifest.certificate)]),
        ]
    )


def _format_footer(manifest: Manifest) -> list[str]:
    from emsco_runtime.bundle.summary import pluralize  # noqa: PLC0415 - loads numpy; --help must answer at once

    expected, unit = manifest.expected, manifest.cost_unit
    cost = expected.cost
    figures = f"coverage {_percent(expected.accepted, expected.rows)}, accuracy {_percent(expected.right, expected.accepted)}"
    tail = f"p50 {number(cost.p50)}, p95 {number(cost.p95)}, max {number(cost.max)}"
    groups = [f"{group.name} ({number(group.cost)})" for group in manifest.groups]
    versions = [f"{name} {version}" for name, version in sorted(manifest.provenance.versions.items())]
    return [
        *([f"groups       {', '.join(groups)}"] if groups else []),
        f"expected     {figures} on {pluralize(expected.rows, f'{expected.split} row')}",
        f"             cost mean {number(cost.mean)} {unit}, {tail}",
        *describe_certificate(manifest.certificate),
        f"golden       {pluralize(len(manifest.golden), 'item')}, replayed whenever the bundle is loaded",
        f"made with    {', '.join(versions) or 'unknown versions'}",
    ]


def describe_certificate(certificate: Certificate | None) -> list[str]:
    """Return what a certificate says, as commands print it."""
    if certificate is None:
        return ["certificate  none"]
    from emsco_runtime.bundle.summary import percent_at_least, percent_at_most, pluralize  # noqa: PLC0415 - loads numpy; --help must answer at once

    given, choice, coverage = certificate, certificate.choice, certificate.coverage
    tests = "" if choice is None else f", {pluralize(choice.tested, 'design')} tested of {choice.candidates}"
    promise = f"error among accepted <= {percent_at_most(given.max_error)} at {percent_at_least(given.confidence)} confidence"
    bounds = f"coverage >= {percent_at_least(coverage.lower)}, coverage <= {percent_at_most(coverage.upper)}"
    return [
        f"certificate  {promise} ({given.method}, {pluralize(given.accepted, 'accepted row')} of {given.rows:,}{tests})",
        f"             {bounds}; these and those per label hold each by itself"
        + (", for every candidate" if given.joint else ""),
        f"             scope: {given.scope}; {given.split} rows, which nothing before had seen",
    ]


def _format_label_bounds(certificate: Certificate) -> str:
    header = ["certified label", "accepted as it", "wrong", "at most", "truly it", "accepted wrongly", "at most"]
    return table(
        header,
        [[str(label.label), *_format_bound(label.accepted_as), *_format_bound(label.true)] for label in certificate.labels],
    )


def _format_bound(share: WrongShare) -> list[str]:
    from emsco_runtime.bundle.summary import percent_at_most  # noqa: PLC0415 - loads numpy; --help must answer at once

    return [str(share.rows), str(share.wrong), percent_at_most(share.upper)]


def _percent(part: int, whole: int) -> str:
    from emsco_runtime.bundle.summary import percent  # noqa: PLC0415 - loads numpy; --help must answer at once

    return percent(part, whole)


def _format_thresholds(stage: Stage) -> str:
    if len(set(stage.thresholds.values())) == 1:
        return number(next(iter(stage.thresholds.values())))
    return ", ".join(f"{label} {number(threshold)}" for label, threshold in stage.thresholds.items())


def _join_names(names: Sequence[str], most: int = 4) -> str:
    more = f", ... ({len(names) - most} more)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _feature_row(manifest: Manifest, feature: Feature) -> list[str]:
    stage = next((index + 1 for index, stage in enumerate(manifest.stages) if feature.name in stage.acquire), None)
    kind = f"{feature.kind} ({len(feature.categories)})" if feature.categories else feature.kind
    return [
        feature.name,
        kind,
        number(feature.cost),
        feature.group or "-",
        "-" if stage is None else str(stage),
        feature.missing,
        feature.unknown if feature.kind == "categorical" else "-",
        "-" if feature.fallback is None else str(feature.fallback),
    ]


if __name__ == "__main__":
    sys.exit(main())
