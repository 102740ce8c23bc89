#!/usr/bin/env python3
"""Checks deploy/kubernetes without a cluster: renders it with `kubectl kustomize`, holds it to the published schemas, sees that
the numbers of shards agree, runs wait.sh with a stand-in for kubectl, and runs the containers' arguments as processes here,
with the variables that their pods would have.

    tests/deploy/kubernetes.py target/debug/sobench

Needs kubectl, and of PyPI kubernetes-validate and PyYAML. Exit codes: 0 all holds; 1 something does not.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("1.28", "1.32", "1.37")
SHARD_TIMEOUT_S = 300


def main() -> int:
    sobench = Path(sys.argv[1]).resolve()
    run, merge = rendered("run"), rendered("merge")
    for document in run + merge:
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)
    print(f"valid against Kubernetes {', '.join(VERSIONS)}: {', '.join(name(document) for document in run + merge)}")

    shards = agreed(run, merge)
    print(f"{shards} shards in the Job, its parallelism, SOBENCH_SHARDS and the merge; the names agree")
    waits()
    played(run, merge, shards, sobench)
    return 0


def rendered(folder: str) -> list[dict]:
    command = ["kubectl", "kustomize", str(ROOT / "deploy/kubernetes" / folder)]
    return list(yaml.safe_load_all(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def name(document: dict) -> str:
    return f"{document['kind']}/{document['metadata']['name']}"


def the(documents: list[dict], kind: str) -> dict:
    (found,) = [document for document in documents if document["kind"] == kind]
    return found


def pod_of(job: dict) -> tuple[dict, dict]:
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container


def agreed(run: list[dict], merge: list[dict]) -> int:
    """Sees that what has to be the same in several places is; the number of shards."""
    job, service = the(run, "Job"), the(run, "Service")
    pod, container = pod_of(job)
    shards = job["spec"]["completions"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert job["spec"]["completionMode"] == "Indexed" and job["spec"]["backoffLimit"] == 0
    assert job["spec"]["parallelism"] == shards, "all shards run at once"
    assert variables["SOBENCH_SHARDS"] == str(shards), "the pods are told how many they are"
    logs = [argument for argument in pod_of(the(merge, "Job"))[1]["args"] if "/shard-" in argument]
    assert logs == [run_log(container).replace("$(JOB_COMPLETION_INDEX)", str(index)) for index in range(shards)], logs

    coordinator = next(argument for argument in container["args"] if argument.startswith("--coordinator="))
    first, port = f"{name(job).split('/')[1]}-0.{service['metadata']['name']}", service["spec"]["ports"][0]["port"]
    assert coordinator == f"--coordinator={first}:{port}", coordinator
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert service["spec"]["publishNotReadyAddresses"], "shard 1 is asked before it is ready"
    for one in (job, the(merge, "Job")):
        assert one["spec"]["activeDeadlineSeconds"] and one["spec"]["ttlSecondsAfterFinished"], "jobs end, and are removed"
        cache = {variable["name"]: variable["value"] for variable in pod_of(one)[1]["env"]}["XDG_CACHE_HOME"]
        assert cache in [mount["mountPath"] for mount in pod_of(one)[1]["volumeMounts"]], "the cache is writable"
    assert container["envFrom"] == [{"secretRef": {"name": "sobench"}}], "a missing secret is an error"
    images = {pod_of(the(documents, "Job"))[1]["image"] for documents in (run, merge)}
    assert len(images) == 1, images
    return shards


KUBECTL = r"""#!/usr/bin/env bash
# Answers in order with the files that are prepared.
here=$(dirname "$0")
number=$(($(cat "$here/next") + 1)); printf %s "$number" >"$here/next"; cat "$here/answer-$number"
"""


def waits() -> None:
    """Runs wait.sh with a stand-in for kubectl: complete, failed, and pods that cannot start."""
    config_error = "sobench-0-x: CreateContainerConfigError secret not found\n"
    for answers, code, words in [
        (["", "sobench-0-x: \n", "SuccessCriteriaMet \nComplete \n"], 0, "job sobench is complete"),
        (["FailureTarget x\nFailed backoff limit\n"], 1, "error: job sobench failed: backoff limit\nhint: "),
        (["", config_error], 1, f"error: pods of job sobench cannot start:\n{config_error}hint: "),
    ]:
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            stand_ins = {"kubectl": KUBECTL, "sleep": "#!/bin/sh\n"}
            for stand_in, text in stand_ins.items():
                (here / stand_in).write_text(text)
                (here / stand_in).chmod(0o755)
            (here / "next").write_text("0")
            for number, answer in enumerate(answers, start=1):
                (here / f"answer-{number}").write_text(answer)
            ran = subprocess.run(
                ["bash", str(ROOT / "deploy/kubernetes/wait.sh"), "sobench"],
                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=SHARD_TIMEOUT_S,
            )
            assert ran.returncode == code and words in ran.stdout + ran.stderr, (answers, ran)
    print("wait.sh: complete, failed, and pods that cannot start")


def run_log(container: dict) -> str:
    return next(argument.split("=", 1)[1] for argument in container["args"] if argument.startswith("--run-log="))


def played(run: list[dict], merge: list[dict], shards: int, sobench: Path) -> None:
    """Runs pods as processes, at once, and then the merge: mounts are folders, names are this machine's."""
    _, container = pod_of(the(run, "Job"))
    with tempfile.TemporaryDirectory() as folder, Served(sobench) as url:
        places = {mount["mountPath"]: f"{folder}/{mount['name']}" for mount in container["volumeMounts"]}
        for place in places.values():
            Path(place).mkdir()
        config = the(run, "ConfigMap")["data"]["run.toml"]
        config = re.sub(r'(?m)^base-url = ".*"$', f'base-url = "{url}"', config)
        config = re.sub(r"(?m)^num-prompts = .*$", "num-prompts = 40", config)
        Path(places["/etc/sobench"], "run.toml").write_text(config)

        variables = {variable["name"]: variable["value"] for variable in container["env"]}
        pods = []
        for index in range(shards):
            own = {**variables, "JOB_COMPLETION_INDEX": str(index)}
            pods.append(process(sobench, arguments(container, own, places), own, folder))
        for index, pod_process in enumerate(pods):
            said = pod_process.communicate(timeout=SHARD_TIMEOUT_S)[0]
            assert pod_process.returncode == 0, f"pod {index} ended with {pod_process.returncode}:\n{said}"

        merging = process(sobench, arguments(pod_of(the(merge, "Job"))[1], {}, places), {}, folder)
        said = merging.communicate(timeout=SHARD_TIMEOUT_S)[0]
        assert merging.returncode == 0, said
        successful = re.search(r"^Successful requests: +(\d+) *$", said, re.MULTILINE)
        assert successful and successful[1] == "40", said
        print(f"{shards} pods as processes, merged: {successful[0].rstrip()}")


def arguments(container: dict, variables: dict[str, str], places: dict[str, str]) -> list[str]:
    """The arguments as the kubelet would give them, $(NAME) expanded, with places of this machine."""
    mounted = re.compile(rf"(^|=)({'|'.join(map(re.escape, places))})/")

    def here(argument: str) -> str:
        argument = re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], argument)
        argument = argument.replace("=sobench-0.sobench:", "=127.0.0.1:")
        return mounted.sub(lambda found: f"{found[1]}{places[found[2]]}/", argument)

    return [here(argument) for argument in container["args"]]


def process(sobench: Path, typed: list[str], variables: dict[str, str], folder: str) -> "subprocess.Popen[str]":
    environment = {"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1", "XDG_CACHE_HOME": f"{folder}/cache", **variables}
    return subprocess.Popen([sobench, *typed], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Served:
    """A `sobench serve` on a free port; its address."""

    def __init__(self, sobench: Path) -> None:
        self.command = [str(sobench), "serve", "--port", "0"]

    def __enter__(self) -> str:
        self.server = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        assert self.server.stderr is not None
        said = self.server.stderr.readline()
        found = re.search(r"http://\S+", said)
        assert found, said
        return found[0]

    def __exit__(self, *_: object) -> None:
        self.server.send_signal(signal.SIGINT)
        self.server.communicate(timeout=60)


if __name__ == "__main__":
    sys.exit(main())
