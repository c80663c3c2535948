// A real authorization server whose users come by browser: oidc-provider with
// registration (RFC 7591), PKCE, resource indicators (RFC 8707), rotated refresh tokens
// and revocation (RFC 7009). Whoever comes is logged in as the header X-Account says,
// and has agreed to everything. It serves as the issuer of a tenant's users, and as the
// server of an upstream where they have other accounts.
//
// usage: PORT=… node upstreamidp.mjs
import { generateKeyPairSync } from 'node:crypto';
import http from 'node:http';
import { Provider } from 'oidc-provider';

const port = Number(process.env.PORT);
const issuer = `http://127.0.0.1:${port}`;
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });
const names = Object.fromEntries(['session', 'interaction', 'resume'].map(name => [name, `_${name}_${port}`])); // cookies know no ports

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
        resourceIndicators: {
            enabled: true,
            useGrantedResource: () => true,
            getResourceServerInfo: (_, resource) => ({
                scope: 'trips pay',
                audience: resource,
                accessTokenFormat: 'jwt',
                accessTokenTTL: 300,
                jwt: { sign: { alg: 'ES256' } }
            })
        }
    },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` }
});

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
        grant.addResourceScope(params.resource, 'trips pay');
    }
    const consent = { grantId: await grant.save() };
    return provider.interactionFinished(req, res, { consent }, { mergeWithLastSubmission: true });
}

const serve = provider.callback();
http.createServer((req, res) => {
    if (!req.url.startsWith('/interaction/')) {
        return serve(req, res);
    }
    agree(req, res).catch(error => res.writeHead(500).end(String(error)));
}).listen(port, '127.0.0.1');
