import { ReactFlow } from "@xyflow/react";
import { createRoot } from "react-dom/client";
import "@xyflow/react/dist/style.css";

/** The least that draws a graph with this library: what Studio's canvas is measured against (tools/budgets.py). */
const graph = await (await fetch("./graph.json")).json();
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <div style={{ width: "100vw", height: "100vh" }}>
      <ReactFlow nodes={graph.nodes} edges={graph.edges} fitView minZoom={0.05} />
    </div>,
  );
}
