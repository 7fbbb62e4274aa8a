"""However certificates are made, by a job, by cert-manager or by hand, the chart names the same ones."""

import pytest

from leadsman.cli.certificates import (
    MEMBER_NAMES,
    MEMBER_SECRET,
    MOST_MEMBERS,
    TRUST_CONFIG_MAP,
)
from leadsman.cli.certs import default_server_names
from leadsman.cli.certs_actions import ETCD_CA_SECRET
from leadsman.cli.main import build_parser
from tests import kubernetes_schemas
from tests.daemonset.chart_settings import EVERY_SETTING
from tests.daemonset.conftest import Template

pytestmark = pytest.mark.integration


def test_the_job_of_the_certificates_is_gone_after_its_hook_and_may_only_touch_its_secrets(template: Template) -> None:
    plain = template("certificates.mode=given")
    names = {(each["kind"], each["metadata"]["name"]) for each in plain}
    added = [
        each for each in template("certificates.mode=job") if (each["kind"], each["metadata"]["name"]) not in names
    ]
    by_kind = {each["kind"]: each for each in added}
    assert sorted(by_kind) == ["Job", "Role", "RoleBinding", "ServiceAccount"]
    for each in added:
        kubernetes_schemas.validate(each, "1.36")
        assert each["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert "hook-succeeded" in each["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
    secrets, config_maps = by_kind["Role"]["rules"]
    of_etcd = [ETCD_CA_SECRET, MEMBER_SECRET]
    assert secrets["resourceNames"] == ["leadsman-ca", "leadsman-extender-tls", "leadsman-scheduler-tls", *of_etcd]
    assert secrets["verbs"] == ["get", "create", "patch"]
    assert (config_maps["resourceNames"], config_maps["verbs"]) == ([TRUST_CONFIG_MAP], ["create", "patch"])
    (container,) = by_kind["Job"]["spec"]["template"]["spec"]["containers"]
    args = build_parser({}, "certs").parse_args(container["args"])
    assert (args.action, args.namespace, args.days) == ("cluster", "leadsman", 365)
    assert "secrets" not in str(
        [each.get("rules") for each in (*plain, *template(*EVERY_SETTING, "certificates.mode=given"))]
    )


def test_cert_manager_issues_the_names_that_leadsman_certs_does(template: Template) -> None:
    made = {
        each["spec"]["secretName"]: each["spec"]
        for each in template("certificates.mode=cert-manager", f"etcd.replicas={MOST_MEMBERS}")
        if each["kind"] == "Certificate"
    }
    extender, member, trust = (made[name] for name in ("leadsman-extender-tls", MEMBER_SECRET, TRUST_CONFIG_MAP))
    assert (*extender["dnsNames"], "localhost", "127.0.0.1") == default_server_names("leadsman")
    assert {*member["dnsNames"], *member["ipAddresses"]} == {*MEMBER_NAMES}
    assert not {"server auth", "client auth"} & {*trust["usages"]}, "each node reads its key"
