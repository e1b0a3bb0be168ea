import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// A page with the graph library alone, for `make budgets`. It is not part of Studio.
export default defineConfig({
  root: "bare",
  base: "./",
  plugins: [react()],
  build: { outDir: process.env.BARE_FOLDER ?? "../node_modules/.bare", emptyOutDir: true, target: "esnext" },
});
