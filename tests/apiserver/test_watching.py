"""What a reflector does when the API server does what API servers do. Each test is one script."""

from apiserver.changes import Kind

WEB = "/api/v1/namespaces/default/pods/web-0"


def pod(node="n1", **more):
    return {"spec": {"nodeName": node}} | more


async def test_what_is_there_is_listed_and_what_comes_is_watched(api, following, until):
    api.put(WEB, pod())
    async with following() as pods:
        assert pods.names == {"web-0"}
        await until(lambda: api.watches)
        api.put("/api/v1/namespaces/default/pods/web-1", pod())
        await until(lambda: pods.names == {"web-0", "web-1"})
        api.delete(WEB)
        await until(lambda: pods.names == {"web-1"})


async def test_a_change_has_the_object_and_the_one_before(api, following, until):
    api.put(WEB, pod())
    async with following() as pods:
        await until(lambda: api.watches)
        api.put(WEB, pod(status={"phase": "Running"}))
        api.delete(WEB)
        await until(lambda: len(pods.told) == 3)
    added, modified, deleted = pods.told
    assert [change.kind for change in pods.told] == [Kind.ADDED, Kind.MODIFIED, Kind.DELETED]
    assert added.old is None
    assert (modified.old, modified.object.status.phase) == (added.object, "Running")
    assert (deleted.old, deleted.object.status.phase) == (modified.object, "Running")
