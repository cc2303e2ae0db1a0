"""The connection of a node to Temporal: its workers, who starts workflows, and whether the server answers.

Invariants: a node reads task queues only while it works; a server that does not answer is reported once, and tried
until it does; the newest version among the nodes gets the work that starts.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import temporalio
from msgspec import Struct
from temporalio import activity
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest, SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkflowIDConflictPolicy
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig
from temporalio.service import RPCError
from temporalio.worker import (
    PollerBehaviorSimpleMaximum,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerDeploymentConfig,
    WorkerDeploymentVersion,
)

from buddy.cluster.temporal_workflow import DRIVE, Attempt, Order, Outcome, SessionWorkflow, node_queue
from buddy.config.fleet import TemporalSettings
from buddy.version import VERSION

ANSWER_SECONDS = 2.0
RETRY_SECONDS = 1.0
SETTLE_SECONDS = 0.5
CLOSE_SECONDS = 1.0
CANCEL_AGAIN_SECONDS = 0.1
LIBRARY = Path(temporalio.__file__ or "").parent
ACTIVITIES = 10_000
"""Sessions that one node may hold; how many it takes is decided by its room for runs."""

Drive = Callable[[Attempt], Awaitable[Outcome]]

log = logging.getLogger("buddy.fleet")


class EngineRole(Struct, frozen=True, kw_only=True):
    """This node for Temporal; `versions` are those of the nodes that work now."""

    name: str
    lease_seconds: float
    drive: Drive
    versions: Callable[[], Sequence[str]]
    version: str = VERSION


class TemporalEngine:
    def __init__(self, settings: TemporalSettings, role: EngineRole) -> None:
        self.is_reachable = True
        """Whether the server answered the last time; True before the first."""
        self._settings = settings
        self._role = role
        self._client: Client | None = None
        self._runtime: Runtime | None = None
        self._works = asyncio.Event()
        self._rests = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        logging.getLogger("temporalio").setLevel(logging.WARNING)  # it tells of every start and stop of a worker
        self._task = asyncio.get_running_loop().create_task(self._keep_working())

    def set_working(self, *, working: bool) -> None:
        """Read the task queues, or stop reading them."""
        (self._works.set if working else self._works.clear)()
        (self._rests.clear if working else self._rests.set)()

    async def ask(self, session_id: str, number: int, *, node: str | None = None, user: str | None = None) -> None:
        """Have a session driven, unless that has been asked already."""
        if self._client is None:
            return
        queue = self._settings.task_queue
        order = Order(session_id, queue, self._role.lease_seconds, number, node, user)
        try:
            await self._client.start_workflow(
                SessionWorkflow.run,
                order,
                id=f"{queue}:{session_id}",
                task_queue=queue,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                rpc_timeout=timedelta(seconds=ANSWER_SECONDS),
            )
        except RPCError as error:
            self._note(error)

    async def close(self) -> None:
        """Give the tasks back, unless the server does not answer."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
        while tasks := _tasks_of_workers(self._task):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=CANCEL_AGAIN_SECONDS)

    # --- working ----------------------------------------------------------------------------------------------------

    async def _keep_working(self) -> None:
        while True:
            await self._works.wait()
            try:
                await self._work()
            except (RPCError, RuntimeError, OSError, ValueError) as error:  # whatever the core raises as RuntimeError
                self._note(error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _work(self) -> None:
        if self._client is None:
            self._client = await self._connect()
        async with self._shared_worker(self._client), self._own_worker(self._client):
            while not self._rests.is_set():
                is_settled = await self._look(self._client)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._role.lease_seconds / 2 if is_settled else SETTLE_SECONDS):
                        await self._rests.wait()

    async def _look(self, client: Client) -> bool:
        """Whether the server answers, and sends work to the right version."""
        try:
            await client.service_client.check_health(timeout=timedelta(seconds=ANSWER_SECONDS))
        except RPCError as error:
            self._note(error)
            return False
        self._note(None)
        try:
            await self._choose_version(client)
        except RPCError as error:  # it has not seen a worker of this version yet, or another node asks at the same time
            log.debug("the version is not chosen yet: %s", error)
            return False
        return True

    async def _connect(self) -> Client:
        forwarding = LogForwardingConfig(logging.getLogger("buddy.temporal"))
        telemetry = TelemetryConfig(logging=LoggingConfig("ERROR", forwarding))
        self._runtime = self._runtime or Runtime(telemetry=telemetry, worker_heartbeat_interval=None)
        settings = self._settings
        return await Client.connect(
            settings.address,
            namespace=settings.namespace,
            identity=self._role.name,
            runtime=self._runtime,
            connect_timeout=timedelta(seconds=ANSWER_SECONDS),
        )

    def _shared_worker(self, client: Client) -> Worker:
        version = WorkerDeploymentVersion(self._settings.task_queue, self._role.version)
        return Worker(
            client,
            task_queue=self._settings.task_queue,
            workflows=[SessionWorkflow],
            activities=[_activity(self._role.drive)],
            workflow_runner=UnsandboxedWorkflowRunner(),  # ours is a dozen lines, and the sandbox imports all again
            max_cached_workflows=0,  # else a workflow waits for the node that had it, which may be dead
            max_concurrent_activities=ACTIVITIES,
            # An open poll of a paused node swallows tasks: have no more than one.
            activity_task_poller_behavior=PollerBehaviorSimpleMaximum(maximum=1),
            disable_eager_activity_execution=True,
            graceful_shutdown_timeout=timedelta(seconds=self._role.lease_seconds),
            deployment_config=WorkerDeploymentConfig(
                version, use_worker_versioning=True, default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE
            ),
        )

    def _own_worker(self, client: Client) -> Worker:
        return Worker(
            client,
            task_queue=node_queue(self._settings.task_queue, self._role.name),
            activities=[_activity(self._role.drive)],
            max_concurrent_activities=ACTIVITIES,
            activity_task_poller_behavior=PollerBehaviorSimpleMaximum(maximum=1),
            graceful_shutdown_timeout=timedelta(seconds=self._role.lease_seconds),
        )

    async def _choose_version(self, client: Client) -> None:
        """Let the newest version that works have what starts from now on, so that an upgrade needs no command."""
        newest = max([self._role.version, *self._role.versions()], key=version_key)
        if newest != self._role.version:
            return
        name, namespace = self._settings.task_queue, self._settings.namespace
        timeout = timedelta(seconds=ANSWER_SECONDS)
        service = client.workflow_service
        described = await service.describe_worker_deployment(
            DescribeWorkerDeploymentRequest(namespace=namespace, deployment_name=name), timeout=timeout
        )
        info = described.worker_deployment_info
        if info.routing_config.current_deployment_version.build_id == newest:
            return
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace=namespace,
            deployment_name=name,
            build_id=newest,
            conflict_token=described.conflict_token,
            identity=self._role.name,
            ignore_missing_task_queues=True,
        )
        await service.set_worker_deployment_current_version(request, timeout=timeout)
        log.info("Temporal sends work to version %s", newest)

    def _note(self, error: BaseException | None) -> None:
        address = self._settings.address
        if error is None and not self.is_reachable:
            log.warning("connected to Temporal at %s again", address)
        elif error is not None and self.is_reachable:
            what = "runs go on, and PostgreSQL places sessions meanwhile"
            log.warning("can't reach Temporal at %s (%s); %s; retrying", address, _describe(error), what)
        self.is_reachable = error is None


def _tasks_of_workers(task: asyncio.Task[None]) -> list[asyncio.Task[object]]:
    """What is left of workers that are closing. They wait for the server without a limit, also after a cancel."""
    return [one for one in asyncio.all_tasks() if one is task or _is_of_library(one)]


def _is_of_library(task: asyncio.Task[object]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and Path(code.co_filename).is_relative_to(LIBRARY)


def version_key(version: str) -> tuple[int, ...]:
    """Orders versions by their numbers."""
    return tuple(map(int, re.findall(r"\d+", version)))


def _activity(drive: Drive) -> Callable[[Attempt], Awaitable[Outcome]]:
    @activity.defn(name=DRIVE)
    async def run(attempt: Attempt) -> Outcome:
        return await drive(attempt)

    return run


def _describe(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
