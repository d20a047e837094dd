"""Figures in Prometheus' text format. Pure."""

from collections.abc import Mapping, Sequence

from embyproc.models import Figure


def exposition(figures: Sequence[Figure]) -> str:
    """The figures as text; each name once with its help and type, no timestamps."""
    lines: list[str] = []
    told: set[str] = set()
    for figure in sorted(figures, key=lambda one: one.name):
        name = f"embyproc_{figure.name}"
        if name not in told:
            told.add(name)
            lines += [f"# HELP {name} {figure.help}", f"# TYPE {name} {figure.kind}"]
        lines.append(f"{name}{_labels(figure.labels)} {figure.value:.15g}")
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
