"""Create Protocol Buffers message classes from descriptions in text, without generated code.

Generated code works with some versions of protobuf only, and registers its names for the process, where
TensorFlow and TensorBoard register the same ones: each class here has a pool of its own.
"""

from typing import Any


def message_class(description: str, name: str) -> Any:
    """Return the class of a message.

    Args:
        description: A ``FileDescriptorProto`` in text format.
        name: The message's full name.
    """
    # Imported late: it takes as long as NumPy does, and not every program reads or writes messages.
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(description, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
