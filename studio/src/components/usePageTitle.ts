import { useEffect } from "react";

/** Name the browser's tab after the page. */
export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Stepwell Studio`;
  }, [title]);
}
