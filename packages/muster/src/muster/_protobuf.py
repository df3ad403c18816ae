"""Create Protocol Buffers message classes from descriptions in text, without generated code.

Generated code works with some versions of protobuf only, and registers its names for the process, where
TensorFlow and TensorBoard register the same ones: each description here has a pool of its own.
"""

import functools
import re
from typing import Any

_STATEMENT = re.compile(
    r"(?:message\s+(?P<message>\w+)|oneof\s+(?P<oneof>\w+))\s*\{|(?P<end>\})|(?P<repeated>repeated\s+)?"
    r"(?:map<(?P<key>\w+),\s*(?P<value>[\w.]+)>|(?P<type>[\w.]+))\s+(?P<field>\w+)\s*=\s*(?P<number>\d+);"
)


def message_class(description: str, name: str) -> Any:
    """Return the class of a message.

    Args:
        description: Messages as a ``.proto`` file of proto3 has them: with fields, repeated ones, maps,
            ``oneof``, and messages of their own. What they are besides, such as comments, is not read.
        name: The message's full name.
    """
    # Imported late: it takes as long as NumPy does, and not every program reads or writes messages.
    from google.protobuf import message_factory

    pool = _pool(description, name.rpartition(".")[0])
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@functools.cache
def _pool(description: str, package: str) -> Any:
    """Return the messages of a description: one of them holds others only of the same pool."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    field_class = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    messages: list[Any] = []
    in_oneof = False

    def add_field(message: Any, kind: str, name: str, number: int) -> Any:
        field = message.field.add(name=name, number=number)
        if (scalar := f"TYPE_{kind.upper()}") in field_class.Type.keys():
            field.type = field_class.Type.Value(scalar)
        else:
            field.type_name = kind
        return field

    for found in _STATEMENT.finditer(description):
        if found["message"]:
            own = messages[-1].nested_type if messages else file.message_type
            messages.append(own.add(name=found["message"]))
        elif found["oneof"]:
            in_oneof = True
            messages[-1].oneof_decl.add(name=found["oneof"])
        elif found["end"] and in_oneof:
            in_oneof = False
        elif found["end"]:
            messages.pop()
        else:
            kind = found["type"]
            if found["key"]:
                kind = f"{found['field'].title().replace('_', '')}Entry"
                entry = messages[-1].nested_type.add(name=kind, options={"map_entry": True})
                add_field(entry, found["key"], "key", 1)
                add_field(entry, found["value"], "value", 2)
            field = add_field(messages[-1], kind, found["field"], int(found["number"]))
            if found["repeated"] or found["key"]:
                field.label = field_class.LABEL_REPEATED
            if in_oneof:
                field.oneof_index = len(messages[-1].oneof_decl) - 1
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool
