import { Unplug } from "lucide-react";
import { Component, type ReactNode } from "react";
import { CopyButton } from "../../components/CopyButton";
import { EmptyState } from "../../components/EmptyState";

/** A part of the page that may break alone: the rest of the page is fine and the run goes on. */
export class Pane extends Component<{ children: ReactNode }, { broken: Error | null }> {
  override state = { broken: null as Error | null };

  static getDerivedStateFromError(broken: Error) {
    return { broken };
  }

  override render() {
    const { broken } = this.state;
    if (!broken) return this.props.children;
    const details = `${location.pathname}${location.search}\n${broken.stack ?? broken.message}`;
    return (
      <EmptyState
        icon={<Unplug className="i l" aria-hidden="true" />}
        title="This pane stopped working"
        action={
          <>
            <button type="button" className="btn" onClick={() => this.setState({ broken: null })}>
              Show it again
            </button>
            <CopyButton text={details} label="Copy details" />
          </>
        }
      >
        The rest of the page works, and the run is not affected. {broken.message}
      </EmptyState>
    );
  }
}
