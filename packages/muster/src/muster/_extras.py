"""Optional packages: how they are imported, and how to install them.

The distribution is called ``muster-train``: ``muster`` in the package index is another project.
"""

import importlib
import importlib.metadata
import importlib.util
import re
from types import ModuleType

# What the page of a job needs, of the extra "serve".
PAGE_PACKAGES = "starlette", "uvicorn", "prometheus_client"


def install_command(extra: str, distribution: str = "muster-train") -> str:
    """Return the shell command that installs an extra, the optional packages for one purpose.

    Args:
        extra: The extra's name in ``pyproject.toml``.
        distribution: The distribution that has the extra.
    """
    return f'pip install "{distribution}[{extra}]"'


def working_command(extra: str, distribution: str = "muster-train") -> str:
    """Return a shell command that installs an extra's packages here.

    Where muster itself was installed from a folder, no index may have it: the command names the packages.

    Args:
        extra: The extra's name.
        distribution: The distribution that has the extra.
    """
    try:
        found = importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return install_command(extra, distribution)
    mark = re.compile(rf"extra == ['\"]{re.escape(extra)}['\"]")
    requirements = [each for each in found.requires or () if mark.search(each)]
    if found.read_text("direct_url.json") is None or not requirements:
        return install_command(extra, distribution)
    names = sorted(re.split(r"[^\w.-]", each.partition("[")[0])[0] for each in requirements)
    return f"pip install {' '.join(names)}"


def missing_package(packages: tuple[str, ...], extra: str) -> str | None:
    """Say which of the packages that a command needs is not installed, and how to install it.

    Args:
        packages: The packages, by the names that are imported.
        extra: The extra of muster that installs them.

    Returns:
        A sentence and a command; None if they are all installed. Nothing is imported.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            return (
                f"this needs the package {package}, which is not installed here. Run: "
                f"{working_command(extra)}"
            )
    return None


def extra_module(module: str, extra: str, who: str, distribution: str = "muster-train") -> ModuleType:
    """Import a module of an optional package.

    Args:
        module: The name of the module.
        extra: The extra that installs the package.
        who: The class that needs the package, for the message.
        distribution: The distribution that has the extra.

    Raises:
        ImportError: The package is not installed; says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        raise ImportError(
            f"{who} needs the package {module.partition('.')[0]}: {working_command(extra, distribution)}."
        ) from exc
