"""What a program is told that asks for a name of TensorFlow's that is not there."""


def missing(module: str, name: str) -> AttributeError:
    """The error for a name that a module of TensorFlow's has and that of muster does not.

    Args:
        module: as programs write it, such as ``tf.compat.v1``.
        name: what was looked up.
    """
    return AttributeError(
        f'muster has no {module}.{name}. The page "Coming from TensorFlow" of the documentation says what to '
        "use instead and what is not there yet.",
        name=name,
    )
