"""Spans: runs, and attempts of steps and transitions, for OpenTelemetry.

All ids are derived from the ids of runs: a trace's id from the root run, a run span's id from the run, an
attempt span's id from its run, path and number. So a run has one trace whichever workers drive it, and
after a crash the next worker continues the same trace.

No span contains a payload or the message of an error. Spans are off, and cost nothing, unless the program
configures a tracer provider before it opens the engine.
"""

from __future__ import annotations

import contextvars
import hashlib
import sys
from typing import Any, NamedTuple

SCOPE = "stepwell"


class TracedRun(NamedTuple):
    """The run whose span contains other spans."""

    id: str
    root: str = ""  # '': the run itself

    @property
    def trace(self) -> str:
        return self.root or self.id


class EndedRun(NamedTuple):
    """A run that has ended. Times are in seconds."""

    run: TracedRun
    parent: str
    workflow: str
    version: str
    status: str
    error: str  # its code
    began: float
    ended: float


class Spans:
    """Creates the spans of one worker."""

    def __init__(self, tracer: Any, worker: str) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context, attach

        self._api, self._attach, self._empty = trace, attach, Context()
        self._tracer = tracer
        self._worker = worker
        self._ids = _run_ids(tracer)

    def begin(
        self, run: TracedRun, path: str, attempt: int, *, name: str, variables: contextvars.Context
    ) -> Any:
        """Begin the span of an attempt. Spans that its code begins under these variables are inside it."""
        links = []
        if attempt > 1:
            before = _span_id(run.id, path, attempt - 1)
            links = [self._api.Link(self._context(run, before), {"stepwell.link": "attempt before"})]
        attributes = {
            "stepwell.run": run.id,
            "stepwell.path": path,
            "stepwell.attempt": attempt,
            "stepwell.worker": self._worker,
        }
        with self._ids.given(run, _span_id(run.id, path, attempt)):
            span = self._tracer.start_span(
                name, context=self._inside(run, _span_id(run.id)), links=links, attributes=attributes
            )
        variables.run(self._attach, self._api.set_span_in_context(span))
        return span

    def end(self, span: Any, error: BaseException | None) -> None:
        if error is not None:
            self._fail(span, type(error).__name__)
        span.end()

    def run_ended(self, run: EndedRun) -> None:
        """Report the span of a whole run, from its start to its end, inside that of its parent."""
        attributes = {
            "stepwell.run": run.run.id,
            "stepwell.workflow": run.workflow,
            "stepwell.version": run.version,
            "stepwell.status": run.status,
            "stepwell.worker": self._worker,
        }
        context = self._inside(run.run, _span_id(run.parent)) if run.parent else self._empty
        with self._ids.given(run.run, _span_id(run.run.id)):
            span = self._tracer.start_span(
                run.workflow, context=context, attributes=attributes, start_time=_nanoseconds(run.began)
            )
        if run.status != "completed":
            self._fail(span, run.error or run.status)
        span.end(_nanoseconds(run.ended))

    def _fail(self, span: Any, error: str) -> None:
        span.set_attribute("error.type", error)
        span.set_status(self._api.Status(self._api.StatusCode.ERROR, error))

    def _inside(self, run: TracedRun, span_id: int) -> Any:
        span = self._api.NonRecordingSpan(self._context(run, span_id))
        return self._api.set_span_in_context(span, self._empty)

    def _context(self, run: TracedRun, span_id: int) -> Any:
        trace_id = int(run.trace, 16)
        flags = self._api.TraceFlags(self._api.TraceFlags.SAMPLED if self._sampled(trace_id) else 0)
        return self._api.SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)

    def _sampled(self, trace_id: int) -> bool:
        """Decide like the root span, by the trace id, so that all workers decide alike."""
        sampler = getattr(self._tracer, "sampler", None)
        if sampler is None:
            return True
        return bool(sampler.should_sample(self._empty, trace_id, SCOPE).decision.is_sampled())


class _RunIds:
    """Gives the next span the ids of its run. All other ids come from the provider's own generator."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual
        self._given: tuple[int, int] | None = None

    def given(self, run: TracedRun, span_id: int) -> _RunIds:
        self._given = int(run.trace, 16), span_id
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        self._given = None

    def generate_trace_id(self) -> int:
        return self._given[0] if self._given else int(self._usual.generate_trace_id())

    def generate_span_id(self) -> int:
        return self._given[1] if self._given else int(self._usual.generate_span_id())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)


def _run_ids(tracer: Any) -> _RunIds:
    """Put our id generator before the provider's. Other implementations of tracers keep their own."""
    usual = getattr(tracer, "id_generator", None)
    if isinstance(usual, _RunIds):
        return usual
    ids = _RunIds(usual)
    if usual is not None:
        tracer.id_generator = ids
    return ids


def configured(worker: str) -> Spans | None:
    """Return the spans of this process, or None if no provider is configured. That check needs no import."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    tracer = trace.get_tracer_provider().get_tracer(SCOPE)
    return None if isinstance(tracer, trace.NoOpTracer | trace.ProxyTracer) else Spans(tracer, worker)


def _span_id(run: str, path: str = "", attempt: int = 0) -> int:
    text = f"{run}/{path}/{attempt}" if path else run
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") or 1


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000_000)
