import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// `base` is relative and the server names the root in <base>, so Studio works under any path.
export default defineConfig({
  base: "./",
  plugins: [react(), tailwindcss()],
  build: {
    outDir: "../src/stepwell/server/studio_files",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content security policy allows files only
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 2000, // elk's worker
    // One file for all icons: else each that two pages share is a file, and a request, of its own.
    rolldownOptions: {
      output: { codeSplitting: { groups: [{ name: "icons", test: /[\\/]lucide-react[\\/]/ }] } },
    },
  },
  worker: { format: "es" },
  server: {
    port: 5173,
    proxy: { "/api": { target: process.env.STEPWELL_URL ?? "http://localhost:8710", changeOrigin: true } },
  },
  test: { include: ["src/**/*.test.ts"] },
});
