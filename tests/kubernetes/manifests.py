#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The contents of the manifests of dist/kubernetes, for the suite kubernetes.

manifests.py agree           whether they agree with each other, with the image, the systemd unit and what the daemon serves
manifests.py json FOLDER     writes each as FOLDER/NAME.json
manifests.py field PATH      a value of the DaemonSet's container, as in securityContext.capabilities.add
manifests.py mask            its capabilities as /proc/PID/status shows them
"""
import json
import os
import re
import sys

import yaml

ROOT = 'dist/kubernetes'
BASE = ROOT + '/base'
OVERLAYS = {'before-linux-6.6': ['SYS_ADMIN'], 'gpu-core-dumps': ['SETUID', 'SETGID', 'KILL']}
# Of the systemd unit only, and why no pod has them.
UNIT_ONLY = {
    'SYS_RESOURCE': 'container runtimes set limits that are high enough',
    'SYSLOG': 'for /dev/kmsg, which the device cgroup of a pod refuses',
    'CHOWN': 'for ctl.group: an image has no groups',
    'SYS_ADMIN': 'in the overlay for older kernels',
}


def load(name):
    with open(os.path.join(BASE, name), encoding='utf-8') as f:
        return yaml.safe_load(f)


def objects():
    """Of the kustomization, and what it leaves as a choice."""
    found = {name: load(name) for name in load('kustomization.yaml')['resources']}
    return {**found, 'podmonitor.yaml': load('../components/prometheus-operator/podmonitor.yaml')}


def daemonset():
    return load('daemonset.yaml')['spec']['template']


def number_of(capability):
    with open('/usr/include/linux/capability.h', encoding='utf-8') as f:
        return int(re.search(rf'^#define CAP_{capability}\s+(\d+)', f.read(), re.M)[1])


def patch_of(overlay):
    return yaml.safe_load(load(f'../components/{overlay}/kustomization.yaml')['patches'][0]['patch'])


def agree():
    wrong = []

    def same(what, a, b):
        if a != b:
            wrong.append(f'{what}: {a}, not {b}')

    template = daemonset()
    pod, c = template['spec'], template['spec']['containers'][0]
    config = load('daemon.yaml')
    objs = objects()
    kustomization = load('kustomization.yaml')

    files = set(os.listdir(BASE)) - {'kustomization.yaml', 'daemon.yaml'}
    same('files of the folder and of the kustomization', files, set(objs) - {'podmonitor.yaml'})
    labels = template['metadata']['labels']
    for name, selector in [
            ('daemonset', objs['daemonset.yaml']['spec']['selector']['matchLabels']),
            ('service', objs['service.yaml']['spec']['selector']),
            ('podmonitor', objs['podmonitor.yaml']['spec']['selector']['matchLabels'])]:
        same(f'{name}: selector', selector, labels)
    port = int(config['metrics']['listen'].rsplit(':', 1)[1])
    same('container port', {p['name']: p['containerPort'] for p in c['ports']}, {'metrics': port})
    same('annotation', template['metadata']['annotations']['prometheus.io/port'], str(port))
    same('service', [(p['port'], p['targetPort']) for p in objs['service.yaml']['spec']['ports']], [(port, 'metrics')])
    same('probes', {(c[p]['httpGet']['path'], c[p]['httpGet']['port']) for p in ('livenessProbe', 'readinessProbe')},
         {('/healthz', 'metrics')})
    same('podmonitor', objs['podmonitor.yaml']['spec']['podMetricsEndpoints'][0]['port'], 'metrics')
    same('service account', pod['serviceAccountName'], objs['serviceaccount.yaml']['metadata']['name'])
    same('namespace', kustomization['namespace'], objs['namespace.yaml']['metadata']['name'])
    same('image', [i['name'] for i in kustomization['images']], [c['image']])
    generated = kustomization['configMapGenerator'][0]
    volumes = {v['name']: v for v in pod['volumes']}
    same('config map', volumes['config']['configMap']['name'], generated['name'])
    same('volumes', {m['name'] for m in c['volumeMounts']}, set(volumes))
    mounts = {m['mountPath']: m for m in c['volumeMounts']}
    same('configuration', os.path.split(c['args'][c['args'].index('--config') + 1]), ('/etc/cudatrace', generated['files'][0]))
    same('configuration: mounted', '/etc/cudatrace' in mounts, True)
    same('files.directory: mounted, to write', mounts[config['files']['directory']].get('readOnly', False), False)
    for m in c['volumeMounts']:
        writes = m['mountPath'] in ('/run/cudatrace', config['files']['directory'])
        same(f'{m["mountPath"]}: read only', m.get('readOnly', False), not writes)

    added = c['securityContext']['capabilities']['add']
    with open('dist/cudatrace.service.in', encoding='utf-8') as f:
        text = f.read()
    unit = re.search(r'^CapabilityBoundingSet=(.*)$', text, re.M)[1].split()
    same('capabilities of the DaemonSet and of the systemd unit', {f'CAP_{x}' for x in {*added, *UNIT_ONLY}}, set(unit))
    for name, more in OVERLAYS.items():
        same(f'overlay {name}', patch_of(name), [{'op': 'add', 'path': '/spec/template/spec/containers/0/securityContext/capabilities/add/-',
                                                  'value': x} for x in more])
    for name in OVERLAYS:
        overlay = load(f'../{name}/kustomization.yaml')
        same(f'overlay {name}', (overlay['resources'], overlay['components']), (['../base'], [f'../components/{name}']))
    # Of the template: all components are named, some as a comment; it replaces what is there.
    with open(ROOT + '/site/kustomization.yaml', encoding='utf-8') as f:
        named = re.findall(r'^  (?:# )?- \.\./components/(\S+)', f.read(), re.M)
    same('components that the template names', sorted(named), sorted(os.listdir(ROOT + '/components')))
    site = load('../site/kustomization.yaml')
    same('image that the template replaces', [i['name'] for i in site['images']], [i['newName'] for i in kustomization['images']])
    choice = re.search(r'^#CapabilityBoundingSet=(.*)$', text, re.M)[1].split()
    same('capabilities for GPU core dumps, of the unit', choice, [f'CAP_{x}' for x in OVERLAYS['gpu-core-dumps']])
    if wrong:
        sys.exit('\n'.join(wrong))


def field(path):
    value = daemonset()['spec']['containers'][0]
    for part in path.split('.'):
        value = value[part]
    print(*value if isinstance(value, list) else [value], sep='\n')


def mask():
    added = daemonset()['spec']['containers'][0]['securityContext']['capabilities']['add']
    print(f'{sum(1 << number_of(c) for c in added):016x}')


def write_json(folder):
    for name, value in objects().items():
        with open(os.path.join(folder, name.replace('.yaml', '.json')), 'w', encoding='utf-8') as f:
            json.dump(value, f)


if __name__ == '__main__':
    {'agree': agree, 'json': write_json, 'field': field, 'mask': mask}[sys.argv[1]](*sys.argv[2:])
