"""workflow: starts another run, of any style, and waits for it unless `wait` is false."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from stepwell.authoring.graphs.errors import NodeError
from stepwell.authoring.graphs.nodes.node_data import NodeData
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeOutcome, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.retry import retry_of
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.errors import excerpt


class WorkflowData(NodeData):
    """Another workflow, which runs as a child of this run."""

    workflow: Annotated[
        str,
        Field(
            validation_alias=AliasChoices("workflow", "workflowId"),
            description="The name of a workflow of any style.",
        ),
    ]
    version: Annotated[
        str | int | Literal["published"], Field(description="A version of it, or the published one.")
    ] = "published"
    input: Annotated[Any, Field(description="The input of the child; may have {{ }}.")] = None
    wait: Annotated[
        bool, Field(description="Whether the node waits for the result, or only starts the child.")
    ] = True


class ChildRun:
    def __init__(self, data: WorkflowData, compiler: NodeCompiler) -> None:
        self.workflow = data.workflow
        self.version = "" if data.version == "published" else str(data.version)
        self.waits = data.wait
        self.retry = retry_of(data.retry)
        self.timeout = None if data.timeout_ms is None or not data.wait else data.timeout_ms / 1000
        self._input = compiler.template(data.input, "input")

    def input(self, scope: ExpressionScope, now: Now) -> Any:
        return self._input.render(scope, now)

    def unknown(self) -> NodeError:
        """The error if no such workflow exists."""
        version = f" version {self.version}" if self.version else ""
        return NodeError(
            "UNKNOWN_WORKFLOW",
            f"there is no workflow {excerpt(self.workflow)}{version}",
            hint="register it, Engine(workflows=[...]), or save and publish it",
            config=True,
        )

    def outcome(self, output: Any) -> NodeOutcome:
        return NodeOutcome(output=output)


WORKFLOW = NodeType(
    name="workflow",
    data=WorkflowData,
    role=Role.CHILD,
    compile=ChildRun,
    text="runs another workflow",
)
