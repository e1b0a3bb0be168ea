import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";
import { root } from "./api/client";
import { demoQuery } from "./api/demo";
import { countsQuery, firstEventsQuery, meQuery, runQuery, workflowQuery } from "./api/queries";
import { ErrorPage, NotFoundPage } from "./shell/ErrorPage";
import { Shell } from "./shell/Shell";

const loadRunPage = () => import("./pages/run/RunPage");

/** Ask for all that the page of a run needs at once, not for one part after the other as they show. */
async function askForRun(queries: QueryClient, id: string): Promise<void> {
  void loadRunPage();
  void queries.prefetchQuery(firstEventsQuery(id));
  const run = await queries.ensureQueryData(runQuery(id));
  if (run.kind === "function") return;
  void (run.kind === "graph" ? import("./pages/run/GraphView") : import("./pages/run/ChartView"));
  void queries.prefetchQuery(workflowQuery(run.workflow, run.version));
}

/** Addresses of Studio. Each page is a file of its own, loaded when it is first opened. */
export function makeRouter(queries: QueryClient) {
  const top = createRootRoute({ notFoundComponent: NotFoundPage });
  const signIn = createRoute({
    getParentRoute: () => top,
    path: "/sign-in",
    component: lazyRouteComponent(() => import("./pages/SignInPage"), "SignInPage"),
  });
  const shell = createRoute({
    getParentRoute: () => top,
    id: "shell",
    component: Shell,
    errorComponent: ErrorPage,
    beforeLoad: async ({ location, preload }) => {
      const run = /\/runs\/([^/]+)$/.exec(location.pathname)?.[1];
      if (run && !preload) void askForRun(queries, decodeURIComponent(run)).catch(() => {}); // the page says what is wrong
      try {
        await queries.ensureQueryData(meQuery);
      } catch (error) {
        if ((error as { status?: number }).status === 401) throw redirect({ to: "/sign-in" });
        throw error;
      }
    },
  });
  const page = (path: string, load: () => Promise<Record<string, unknown>>, name: string) =>
    createRoute({
      getParentRoute: () => shell,
      path,
      component: lazyRouteComponent(load as () => Promise<Record<string, React.ComponentType>>, name),
      errorComponent: ErrorPage,
    });
  const home = createRoute({
    getParentRoute: () => shell,
    path: "/",
    beforeLoad: async () => {
      if (await queries.ensureQueryData(demoQuery)) throw redirect({ to: "/demo" });
      const { total } = await queries.ensureQueryData(countsQuery);
      throw redirect({ to: total ? "/runs" : "/workflows" }); // a first visit has nothing to look at yet
    },
  });
  const approve = createRoute({
    getParentRoute: () => top,
    path: "/approve",
    component: lazyRouteComponent(() => import("./pages/approvals/ApprovePage"), "ApprovePage"),
  });
  const tree = top.addChildren([
    signIn,
    approve,
    shell.addChildren([
      home,
      page("/demo", () => import("./pages/DemoPage"), "DemoPage"),
      page("/runs", () => import("./pages/runs/RunsPage"), "RunsPage"),
      page("/runs/$id", loadRunPage, "RunPage"),
      page("/workflows", () => import("./pages/workflows/WorkflowsPage"), "WorkflowsPage"),
      page("/workflows/$name", () => import("./pages/workflows/WorkflowPage"), "WorkflowPage"),
      page("/approvals", () => import("./pages/approvals/ApprovalsPage"), "ApprovalsPage"),
      page("/schedules", () => import("./pages/schedules/SchedulesPage"), "SchedulesPage"),
      page("/webhooks", () => import("./pages/webhooks/WebhooksPage"), "WebhooksPage"),
      page("/triggers", () => import("./pages/triggers/TriggersPage"), "TriggersPage"),
      page("/alerts", () => import("./pages/alerts/AlertsPage"), "AlertsPage"),
      page("/records", () => import("./pages/records/CollectionsPage"), "CollectionsPage"),
      page("/records/$collection", () => import("./pages/records/CollectionPage"), "CollectionPage"),
      page("/workers", () => import("./pages/workers/WorkersPage"), "WorkersPage"),
      page("/settings", () => import("./pages/settings/SettingsPage"), "SettingsPage"),
      page("/settings/$section", () => import("./pages/settings/SettingsPage"), "SettingsPage"),
      createRoute({ getParentRoute: () => shell, path: "$", component: NotFoundPage }),
    ]),
  ]);
  return createRouter({
    routeTree: tree,
    basepath: root || "/",
    defaultPreload: "intent",
    scrollRestoration: true,
    // Values are texts: an id of digits must not become a number.
    parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
    stringifySearch: (search) => {
      const text = new URLSearchParams(
        Object.entries(search).flatMap(([name, value]) =>
          value === undefined || value === "" ? [] : [[name, String(value)]],
        ),
      ).toString();
      return text ? `?${text.replaceAll("%2C", ",")}` : "";
    },
  });
}
