import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiProblem } from "./api/client";
import { applyPreferences } from "./components/preferences";
import { makeRouter } from "./routes";
import { applyTheme } from "./shell/theme";
import "./styles/index.css";

applyTheme();
applyPreferences();

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      retry: (count, error) => error instanceof ApiProblem && error.status === 0 && count < 3,
      refetchOnWindowFocus: true,
    },
  },
});

const router = makeRouter(queries);
const element = document.getElementById("root");
if (element) {
  createRoot(element).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
