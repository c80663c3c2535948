// A real authorization server whose users come by browser: oidc-provider with
// registration (RFC 7591), PKCE, resource indicators (RFC 8707), rotated refresh tokens,
// revocation (RFC 7009), introspection (RFC 7662), client credentials and token exchange
// (RFC 8693). Whoever comes is logged in as the header X-Account says, and has agreed to
// everything. It serves as the issuer of a tenant's users, and as the server of an
// upstream where they have other accounts.
//
// Tokens for a resource are JWTs, or opaque where its URL holds /opaque. They live for
// five minutes; where its URL holds /short, those that no refresh gave for three seconds.
// GET /seen tells how often each grant was given and refused, and POST
// /withdraw?account=… takes back all that an account has let others have.
//
// usage: PORT=… node upstreamidp.mjs
import { generateKeyPairSync } from 'node:crypto';
import http from 'node:http';
import { jwtVerify } from 'jose';
import { Provider, errors } from 'oidc-provider';

const port = Number(process.env.PORT);
const issuer = `http://127.0.0.1:${port}`;
const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const key = pair.privateKey.export({ format: 'jwk' });
const names = Object.fromEntries(['session', 'interaction', 'resume'].map(name => [name, `_${name}_${port}`])); // cookies know no ports
const scopes = 'mcp trips pay';

const about = (ctx, resource) => ({
    scope: scopes,
    audience: resource,
    accessTokenFormat: resource.includes('/opaque') ? 'opaque' : 'jwt',
    accessTokenTTL: resource.includes('/short') && ctx.oidc.params.grant_type !== 'refresh_token' ? 3 : 300,
    jwt: { sign: { alg: 'ES256' } }
});

const provider = new Provider(issuer, {
    cookies: { keys: ['not a secret'], names },
    jwks: { keys: [{ ...key, kid: 'k1', use: 'sig', alg: 'ES256' }] },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    scopes: ['openid', 'offline_access'],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    rotateRefreshToken: true,
    features: {
        devInteractions: { enabled: false },
        registration: { enabled: true },
        revocation: { enabled: true },
        introspection: { enabled: true },
        clientCredentials: { enabled: true },
        resourceIndicators: { enabled: true, useGrantedResource: () => true, getResourceServerInfo: about }
    },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` }
});

// Exchanges a token of ours for a user into one for another resource.
const accessToken = 'urn:ietf:params:oauth:token-type:access_token';
provider.registerGrantType(
    'urn:ietf:params:oauth:grant-type:token-exchange',
    async ctx => {
        const { client, params } = ctx.oidc;
        if (params.subject_token_type !== accessToken || !params.resource) {
            throw new errors.InvalidRequest('an access token and a resource are needed');
        }
        const verified = await jwtVerify(params.subject_token, pair.publicKey, { issuer, typ: 'at+jwt' }).catch(() => {
            throw new errors.InvalidGrant('the subject_token is none of ours');
        });
        const asked = (params.scope ?? '').split(' ').filter(scope => scopes.split(' ').includes(scope));
        const token = new provider.AccessToken({ accountId: verified.payload.sub, client, gty: 'token_exchange', scope: asked.join(' ') || undefined });
        token.resourceServer = new provider.ResourceServer(params.resource, about(ctx, params.resource));
        ctx.body = {
            access_token: await token.save(),
            issued_token_type: accessToken,
            token_type: 'Bearer',
            expires_in: token.expiration,
            scope: token.scope
        };
    },
    ['subject_token', 'subject_token_type', 'requested_token_type', 'audience', 'resource', 'scope']
);

const seen = { given: {}, refused: {} };
const count = how => ctx => {
    const grant = ctx.oidc?.params?.grant_type;
    seen[how][grant] = (seen[how][grant] ?? 0) + 1;
};
provider.on('grant.success', count('given'));
provider.on('grant.error', count('refused'));

const grants = []; // [account, id]

// agree answers what the server asks its user.
async function agree(req, res) {
    const { prompt, params, session } = await provider.interactionDetails(req, res);
    if (prompt.name === 'login') {
        const login = { accountId: req.headers['x-account'] };
        return provider.interactionFinished(req, res, { login }, { mergeWithLastSubmission: false });
    }
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope('openid offline_access');
    if (params.resource) {
        grant.addResourceScope(params.resource, scopes);
    }
    const consent = { grantId: await grant.save() };
    grants.push([session.accountId, consent.grantId]);
    return provider.interactionFinished(req, res, { consent }, { mergeWithLastSubmission: true });
}

// withdraw takes back what an account has let others have.
async function withdraw(account) {
    for (const [, id] of grants.filter(([of]) => of === account)) {
        await Promise.all([provider.AccessToken, provider.RefreshToken].map(model => model.revokeByGrantId(id)));
        await provider.Grant.adapter.destroy(id);
    }
}

const serve = provider.callback();
http.createServer((req, res) => {
    const url = new URL(req.url, issuer);
    const failed = error => res.writeHead(500).end(String(error));
    if (url.pathname === '/seen') {
        res.end(JSON.stringify(seen));
    } else if (url.pathname === '/withdraw') {
        withdraw(url.searchParams.get('account')).then(() => res.end(), failed);
    } else if (url.pathname.startsWith('/interaction/')) {
        agree(req, res).catch(failed);
    } else {
        serve(req, res);
    }
}).listen(port, '127.0.0.1');
