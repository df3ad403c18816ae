"""JSON schemas of Kubernetes' own kinds, which allow what they do not know: the server would drop it."""


def strict(schema):
    """Let a schema refuse the fields that it does not know."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(each) for name, each in schema.items()}
    if isinstance(made.get("properties"), dict) and made.get("type") == "object":
        if "x-kubernetes-preserve-unknown-fields" not in made:
            made.setdefault("additionalProperties", False)
        if made["properties"].get("metadata") == {"type": "object"}:
            made["properties"]["metadata"] = {}
    return made
