"""The Dockerfile of the image that the manifests for Kubernetes run."""

_DOCKERFILE = """\
# docker build --tag IMAGE . && docker push IMAGE, in the folder of the program
FROM {base}
WORKDIR {workdir}
# Before the program, so that a change of it installs nothing again.
COPY {requirements} ./
RUN pip install --no-cache-dir --requirement {requirements}
COPY . .
ENV PYTHONUNBUFFERED=1
# The manifest says which program each task runs.
CMD ["python"]
"""


def dockerfile(*, base: str, workdir: str, requirements: str) -> str:
    """Return a Dockerfile for the folder of a program.

    Args:
        base: The image that it starts from, with Python.
        workdir: The folder of the program in the image.
        requirements: The file that names what pip installs, muster among it.
    """
    return _DOCKERFILE.format(base=base, workdir=workdir, requirements=requirements)
