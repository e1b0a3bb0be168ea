"""The runs that the contact sheet shows, made by a server and workers of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Self

from tools.local_server import LocalServer, until

CLAIM = {
    "order": "7781",
    "paid": "€1,999.00",
    "reason": "Arrived damaged, photos attached",
    "customer_since": "2021, 14 orders, no earlier refund",
}
FLOWS = Path(__file__).with_name("contact_flows.py")


class Scene:
    def __init__(self, folder: Path) -> None:
        shutil.copy(FLOWS, folder / "contact_flows.py")
        self._server = LocalServer(folder, "contact_flows.py", lease=2.0)
        self.runs: dict[str, str] = {}  # key -> id
        self.decided_link = ""  # of a question that somebody else has answered

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def open_url(self) -> str:
        return self._server.open_url

    def __enter__(self) -> Self:
        self._server.__enter__()
        try:
            self._seed()
        except BaseException:
            self._server.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _seed(self) -> None:
        self._server.start_worker()
        for order in range(8826, 8838):
            self._order(f"order-{order}", str(order).replace("1", "0"), parcels=order % 3 + 1)
        self._begin("parcel-5520", "carrier_pickup", "5520")
        self._begin("import-0929", "price_list", 118)
        for month in ("October", "November"):
            self._begin(f"prices-{month}", "price_update", month)
        self._begin("report-1117", "nightly_report", "2026-11-17")
        self._begin("import-0930", "catalogue_import", {})
        self._begin("refund-7781", "refund_approval", 199_900)
        self._order("order-8841", "8841", parcels=80, tags={"shop": "berlin"})
        self._begin("refund-7780", "refund_request", CLAIM)
        self._refund()
        self._votes()
        self._report()
        self._around()
        self._starts()
        self._watch()
        self._settle()

    def _begin(self, key: str, workflow: str, input: object, **more: object) -> str:
        self.runs[key] = self._server.begin(workflow, input, key=key, **more)
        return self.runs[key]

    def _order(self, key: str, order: str, *, parcels: int, **more: object) -> None:
        self._begin(key, "order_fulfilment", {"order": order, "parcels": list(range(parcels))}, **more)

    def _refund(self) -> None:
        """Send the machine back and forth, so that its chart has counts."""
        run = self.runs["refund-7781"]
        for transition, place in (("submit", "review"), ("amend", "draft"), ("submit", "review")):
            self._server.until_status(run, "suspended")
            self._server.post(f"/runs/{run}/trigger", {"transition": transition})
            self._until_place(run, place)

    def _votes(self) -> None:
        """Let one of two approve the refund, and decide another question."""
        run = self.runs["refund-7780"]
        self._server.until_status(run, "suspended")
        answer = {"amount_in_cents": 199_900, "pay_back_to": "the card"}
        self._server.post(
            f"/runs/{run}/decide", {"answer": answer, "by": "ana", "reason": "photos are clear"}
        )
        prices = self.runs["prices-October"]
        self._server.until_status(prices, "suspended")
        self.decided_link = self._server.link(prices, "dora")
        self._server.post(f"/runs/{prices}/decide", {"answer": True, "by": "ana"})

    def _around(self) -> None:
        """Make keys and schedules."""
        for name, scopes, expires in (
            ("shop", ["read", "run"], None),
            ("ci", ["read"], "28d"),
            ("finance-bot", ["read", "approve"], "3d"),
            ("laptop", ["read", "run", "approve", "admin"], "76d"),
        ):
            self._server.post("/keys", {"name": name, "scopes": scopes, "expires": expires})
        berlin = {"timezone": "Europe/Berlin"}
        for name, workflow, input, when in (
            ("nightly", "nightly_report", "2026-11-18", {"cron": "0 2 * * *", "overlap": "skip", **berlin}),
            ("imports", "catalogue_import", {}, {"cron": "0 */3 * * *"}),
            ("prices", "price_update", "December", {"cron": "0 6 1 * *", "overlap": "skip", **berlin}),
            ("pickups", "carrier_pickup", "5520", {"every": "3h", "overlap": "allow", "paused": True}),
        ):
            self._server.post("/schedules", {"name": name, "workflow": workflow, "input": input, **when})

    def _starts(self) -> None:
        """Make secrets, webhooks and triggers: some work, one fails, one is paused."""
        self._server.put("/secrets/shop", {"value": "correct-horse-battery", "hosts": ["api.example.com"]})
        self._server.put(
            "/secrets/carrier", {"value": "battery-horse", "use": "header", "header": "X-Carrier-Key"}
        )
        self._server.post(
            "/webhooks",
            {
                "name": "orders",
                "workflow": "order_fulfilment",
                "secret": "shop",
                "scheme": "hmac",
                "header": "X-Shop-Signature",
            },
        )
        self._server.post(
            "/webhooks",
            {
                "name": "scans",
                "event": "parcel.scanned",
                "event_key": "{{trigger.body.parcel}}",
                "secret": "carrier",
                "scheme": "bearer",
            },
        )
        paid = {"event": "order.paid", "key": "eu", "condition": "trigger.payload.cents > 10000"}
        self._server.post("/triggers", {"name": "large-orders", "workflow": "price_update", **paid})
        for name, folder in (("letters", "orders"), ("returns", "retours")):
            given = {"workflow": "carrier_pickup", "source": "inbox", "config": {"folder": folder}}
            self._server.post("/triggers", {"name": name, **given})
        self._server.post("/triggers", {"name": "old-shop", "workflow": "price_list", "event": "shop.closed"})
        self._server.post("/triggers/old-shop/pause", {"reason": "the shop is sold"})
        until(
            lambda: any(each["failures"] for each in self._server.get("/triggers")["triggers"]),
            "a source fails",
        )

    def _watch(self) -> None:
        """Make alerts, one of which has found something; records, limits and start rates."""
        failed = {"what": "failed", "workflow": "price_list", "after": "1h", "every": 1}
        self._server.put("/alerts/price-lists", failed)
        self._server.put("/alerts/night", {"what": "overdue", "workflow": "nightly_report", "after": "6h"})
        self._server.put("/alerts/gpu", {"what": "no_worker", "queue": "gpu", "after": "5m", "paused": True})
        customer = {"type": "object", "required": ["email"], "properties": {"email": {"type": "string"}}}
        self._server.put("/records/customers", {"schema": customer, "key": "email", "find": ["city", "plan"]})
        self._server.put("/records/parcels", {"schema": {"type": "object"}, "find": ["carrier"]})
        for id, city, plan in (("ann", "Rome", "pro"), ("ben", "Oslo", "free"), ("chloe", "Lyon", "pro")):
            data = {"email": f"{id}@example.com", "city": city, "plan": plan, "orders": [8841, 8842]}
            self._server.post("/records/customers/items", {"id": id, "data": data})
        self._server.put("/limits", {"kind": "workflow", "name": "catalogue_import", "limit": 2})
        self._server.put("/start-rates", {"per": "user", "limit": 9000, "seconds": 3600})
        until(
            lambda: any(each["incidents"] for each in self._server.get("/alerts")["alerts"]),
            "an alert has found something",
        )

    def link(self) -> str:
        """Return a link with which Ben answers the refund."""
        return self._server.link(self.runs["refund-7780"], "ben")

    def key(self, workspace: str) -> str:
        """Return a key of somebody in a workspace."""
        return self._server.key("eve", "read", "run", "approve", "admin", workspace=workspace)

    def _until_place(self, run: str, place: str) -> None:
        until(lambda: self._state(run)["place"] == place, f"the refund is at {place}")

    def _report(self) -> None:
        """Let the report lose its worker."""
        run = self.runs["report-1117"]
        self._server.until_status(run, "suspended")
        self._server.post(f"/runs/{run}/decide", {"answer": True})
        until(lambda: self._done(run, "render_page") > 6, "some pages are rendered")
        lost, _ = self._server.kill_worker_of(run)
        self._server.start_worker()
        until(lambda: self._server.owner_of(run) != lost, "another worker has the report")

    def _settle(self) -> None:
        self._server.until_status(self.runs["order-8841"], "failed")
        done = {"completed", "failed", "suspended", "timed_out", "running"}
        until(lambda: all(run["status"] in done for run in self._list()), "nothing is queued")

    def _list(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self._server.get("/runs")["runs"]
        return found

    def _state(self, run: str) -> dict[str, str]:
        found: dict[str, str] = self._server.get(f"/runs/{run}/state")
        return found

    def _done(self, run: str, step: str) -> int:
        return sum(
            event["kind"] == "step_completed" and step in event["path"] for event in self._server.events(run)
        )
