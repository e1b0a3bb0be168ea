"""Exposition: measurements in the text format of Prometheus.

Labels never contain data of a workspace: a queue is named only if a worker serves it, and no label names a
workflow, a step or a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stepwell.telemetry.measures import Histogram

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
Labels = Mapping[str, str]


class Exposition:
    """Collects metrics, and writes them as one text."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def gauge(self, name: str, about: str, values: Iterable[tuple[Labels, float]]) -> None:
        self._family(name, "gauge", about, values)

    def counter(self, name: str, about: str, values: Iterable[tuple[Labels, float]]) -> None:
        self._family(name, "counter", about, values)

    def histogram(self, name: str, about: str, values: Iterable[tuple[Labels, Histogram]]) -> None:
        self._head(name, "histogram", about)
        for labels, histogram in values:
            for bound, count in histogram.cumulative():
                self._line(f"{name}_bucket", {**labels, "le": f"{bound:g}"}, count)
            self._line(f"{name}_bucket", {**labels, "le": "+Inf"}, histogram.count)
            self._line(f"{name}_sum", labels, histogram.sum)
            self._line(f"{name}_count", labels, histogram.count)

    def _family(self, name: str, kind: str, about: str, values: Iterable[tuple[Labels, float]]) -> None:
        self._head(name, kind, about)
        for labels, value in values:
            self._line(name, labels, value)

    def _head(self, name: str, kind: str, about: str) -> None:
        self._lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]

    def _line(self, name: str, labels: Labels, value: float) -> None:
        inside = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels.items())
        self._lines.append(f"{name}{{{inside}}} {value:g}" if inside else f"{name} {value:g}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
