"""Roster: who this worker is, and what it drives. Shared by the parts of the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.domain.ids import RunId, WorkerId

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation
    from stepwell.engine.worker.remote_step import RemoteStep


class Roster:
    def __init__(self, worker: WorkerId) -> None:
        self.worker = worker  # changes when the worker was reaped and registers again
        self.active: dict[tuple[RunId, str], Activation | RemoteStep] = {}
        self.starting = 0  # slots reserved for local starts that are not answered yet
        self.fanning_out: set[RunId] = set()  # broadcast events

    def worker_id(self) -> WorkerId:
        return self.worker

    def slots_used(self) -> int:
        return len(self.active) + self.starting

    def drives(self, run_id: RunId, path: str) -> bool:
        return (run_id, path) in self.active or run_id in self.fanning_out
