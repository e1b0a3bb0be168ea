import { type ComponentType, useEffect, useState } from "react";

/** A file with a part of a page, and that part once it is loaded. */
export interface PartFile<Props> {
  load: () => Promise<{ default: ComponentType<Props> }>;
  part: ComponentType<Props> | null;
}

/**
 * A part of a page that is a file of its own, loaded when it is first shown. Not React's `lazy`: what follows the
 * fallback of a Suspense is shown no sooner than 300 ms after it, and such a file takes a tenth of that.
 */
export function LazyPart<Props extends object>({ file, props }: { file: PartFile<Props>; props: Props }) {
  const [Part, setPart] = useState(() => file.part);
  const [problem, setProblem] = useState<Error | null>(null);
  useEffect(() => {
    if (Part) return;
    let wanted = true;
    file.load().then(
      ({ default: loaded }) => {
        file.part = loaded;
        if (wanted) setPart(() => loaded);
      },
      (error) => wanted && setProblem(error as Error),
    );
    return () => {
      wanted = false;
    };
  }, [Part, file]);
  if (problem) throw problem; // for the pane around it
  return Part ? <Part {...props} /> : <div className="scroll" aria-busy="true" />;
}
