"""The client over HTTP has the verbs of the client: each of its own, or built on those that are."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from stepwell import Client, HttpClient, RunHandle
from stepwell.client.alerts import Alerts
from stepwell.client.derived_runs import DerivedRuns
from stepwell.client.event_triggers import EventTriggers
from stepwell.client.keys import Keys
from stepwell.client.library import GraphLibrary
from stepwell.client.operations import Holds
from stepwell.client.records import Records
from stepwell.client.schedules import Schedules
from stepwell.client.search import Search
from stepwell.client.secrets import Secrets
from stepwell.client.triggers import NamedTriggers
from stepwell.client.webhooks import Webhooks
from stepwell.client.workflows import Workflows
from stepwell.http_client.alerts import HttpAlerts
from stepwell.http_client.derived_runs import HttpDerivedRuns
from stepwell.http_client.event_triggers import HttpEventTriggers
from stepwell.http_client.handle import HttpRunHandle
from stepwell.http_client.keys import HttpKeys
from stepwell.http_client.library import HttpGraphLibrary
from stepwell.http_client.records import HttpRecords
from stepwell.http_client.schedules import HttpSchedules
from stepwell.http_client.search import HttpSearch
from stepwell.http_client.secrets import HttpSecrets
from stepwell.http_client.triggers import HttpNamedTriggers
from stepwell.http_client.webhooks import HttpWebhooks
from stepwell.http_client.workflows import HttpHolds, HttpWorkflows

# Verbs that are the same code for a database and a server, and what they are built on.
INHERITED = {
    "Client": {
        "start": "_start_one",
        "start_many": "_start_all",
        "run": "start",
        "handle": "_handle",
        "runs": "HttpSearch.runs",
        "counts": "HttpSearch.counts",
        "histogram": "HttpSearch.histogram",
        "waits": "HttpSearch.waits",
        "approvals": "HttpSearch.approvals",
        "decided_approvals": "HttpSearch.decided",
        "workflows": "HttpWorkflows.list",
        "enable": "HttpWorkflows.switch",
        "disable": "HttpWorkflows.switch",
        "versions": "HttpWorkflows.versions",
        "definition": "HttpWorkflows.definition",
        "audit": "HttpSearch.audit",
        "hold": "HttpHolds.change",
        "release": "HttpHolds.change",
        "holds": "HttpHolds.list",
        "rerun": "HttpDerivedRuns.rerun",
        "rerun_from": "HttpDerivedRuns.rerun_from",
        "fork": "HttpDerivedRuns.fork",
        "export": "HttpDerivedRuns.export",
        "import_run": "HttpDerivedRuns.restore",
    },
    "RunHandle": {
        "result": "_end",
        "status": "info",
        "waits": "log",
        "waiting_for": "_first_open_wait",
        "events": "_pages",
        "state": "log, _graph",
        "trace": "log, _graph",
        "checkpoints": "log",
        "documents": "log",
        "document": "log",
    },
    "DerivedRuns": {"read": "of the database only", "start": "of the database only"},
    "Keys": {
        "sign_in": "of the server only: it gives a browser its session",
        "sign_out": "of the server only",
        "read": "of the server only: it opens keys",
        "mark_used": "of the server only",
    },
    "Workflows": {"refusal": "the server sends it", "unknown": "the server sends it"},
    "GraphLibrary": {"drafts": "of the server only: it lists graphs with their nodes"},
    "Webhooks": {
        "deliver": "of the server only: it receives the request",
        "built": "of the database only: what workflows declare",
    },
    "Schedules": {"built": "of the database only: what workflows declare"},
    "EventTriggers": {"built": "of the database only: what workflows declare"},
    "Secrets": {"rotate": "of the database only: it is for all workspaces"},
}

PAIRS: list[tuple[type, type]] = [
    (Client, HttpClient),
    (RunHandle, HttpRunHandle),
    (DerivedRuns, HttpDerivedRuns),
    (Workflows, HttpWorkflows),
    (Keys, HttpKeys),
    (Secrets, HttpSecrets),
    (Alerts, HttpAlerts),
    (Records, HttpRecords),
    (Webhooks, HttpWebhooks),
    (Schedules, HttpSchedules),
    (EventTriggers, HttpEventTriggers),
    (Holds, HttpHolds),
    (Search, HttpSearch),
    (GraphLibrary, HttpGraphLibrary),
]


def verbs(kind: type) -> set[str]:
    """Its own verbs, and those that it shares with other triggers."""
    shared = HttpNamedTriggers if issubclass(kind, HttpNamedTriggers) else NamedTriggers
    return {
        name
        for owner in ((kind, shared) if issubclass(kind, shared) else (kind,))
        for name, member in vars(owner).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }


@pytest.mark.req("A4")
@pytest.mark.parametrize(("local", "http"), PAIRS, ids=lambda kind: kind.__name__)
def test_every_verb_of_the_client_works_over_http(local: type, http: type) -> None:
    inherited = INHERITED.get(local.__name__, {})
    missing = verbs(local) - verbs(http) - inherited.keys()

    assert not missing, f"add them to {http.__name__}, or to INHERITED with what they are built on"
    assert not inherited.keys() - verbs(local), "no longer a verb"
    assert not inherited.keys() & verbs(http), "it has its own now"


@pytest.mark.req("A4")
@pytest.mark.parametrize(("local", "http"), PAIRS, ids=lambda kind: kind.__name__)
def test_verbs_over_http_take_the_same_parameters(local: type, http: type) -> None:
    for name in verbs(local) & verbs(http):
        ours, theirs = inspect.getattr_static(http, name), inspect.getattr_static(local, name)
        if not isinstance(ours, property):
            assert parameters(ours) == parameters(theirs), name


def parameters(verb: Any) -> dict[str, Any]:
    return {name: (p.kind, p.default) for name, p in inspect.signature(verb).parameters.items()}
