"""Credentials of a kubeconfig's exec plugin, such as those of EKS, GKE and AKS, through the `kubernetes` client.

The extra `kubeconfig` brings that client. It is imported only for a kubeconfig that names a plugin.
"""

from pathlib import Path

from leadsman.kube.access import ApiAccessError
from leadsman.kube.kubeconfig import ExecCredential


def load(path: Path, context: str) -> ExecCredential:
    """Runs the plugin of this context's user. Its token is made again shortly before it expires.

    ApiAccessError when the client is missing or the plugin gives no credential; the client logs the plugin's own error.
    """
    try:
        from kubernetes.client import Configuration
        from kubernetes.config import ConfigException, load_kube_config
    except ImportError as error:
        raise ApiAccessError(
            f"kubeconfig {path}: its exec plugin needs the package {error.name}; run pip install 'leadsman[kubeconfig]'"
        ) from error
    configuration = Configuration()
    try:
        load_kube_config(str(path), context, configuration, persist_config=False)
    except ConfigException as error:
        raise ApiAccessError(f"kubeconfig {path}: {error}") from error
    if configuration.cert_file and configuration.key_file:
        certificate, key = (Path(file).read_text() for file in (configuration.cert_file, configuration.key_file))
        return ExecCredential(certificate=certificate, key=key)

    def token() -> str:
        return str(configuration.get_api_key_with_prefix("BearerToken") or "").removeprefix("Bearer ")

    if not token():
        raise ApiAccessError(f"kubeconfig {path}: the exec plugin gave no token and no certificate; its error is above")
    return ExecCredential(token_source=token)
